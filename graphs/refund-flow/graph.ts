import { END, START, StateGraph } from '@langchain/langgraph';
import { defineGraph } from 'perdure';
import {
  checkRules,
  issueRefund,
  lookUpOrder,
  readTicket,
  waitForHumanApproval,
  writeToCustomer,
} from './nodes.ts';
import { PaymentsUnavailableError } from './payments-client.ts';
import { refundState } from './state.ts';

/** A service that is down for a moment costs a moment, not the run. */
const tryAgain = {
  retryPolicy: {
    maxAttempts: 3,
    initialInterval: 200,
    logWarning: false,
    // As the cause: of an operation whose fate could not be looked up just now.
    retryOn: (error: unknown) =>
      error instanceof PaymentsUnavailableError ||
      (error instanceof Error && error.cause instanceof PaymentsUnavailableError),
  },
};

/** The compiled graph, as plain LangGraph. */
export const graph = new StateGraph(refundState)
  .addNode('read_ticket', readTicket)
  .addNode('look_up_order', lookUpOrder, tryAgain)
  .addNode('check_policy', checkRules)
  .addNode('wait_for_human_approval', waitForHumanApproval)
  .addNode('issue_refund', issueRefund, tryAgain)
  .addNode('write_to_customer', writeToCustomer, tryAgain)
  .addEdge(START, 'read_ticket')
  .addEdge('read_ticket', 'look_up_order')
  .addEdge('look_up_order', 'check_policy')
  .addConditionalEdges(
    'check_policy',
    ({ decision }) => {
      if (decision.outcome === 'ask') return 'wait_for_human_approval';
      return decision.outcome === 'refund' ? 'issue_refund' : 'write_to_customer';
    },
    ['wait_for_human_approval', 'issue_refund', 'write_to_customer'],
  )
  .addConditionalEdges(
    'wait_for_human_approval',
    ({ approval }) => (approval.approved ? 'issue_refund' : 'write_to_customer'),
    ['issue_refund', 'write_to_customer'],
  )
  .addEdge('issue_refund', 'write_to_customer')
  .addEdge('write_to_customer', END)
  .compile();

/** The same, named and versioned: threads that begin under 17 end under 17. */
export const refundFlow = defineGraph({ name: 'refund-flow', version: '17', graph });
