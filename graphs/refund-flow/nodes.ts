import type { RunnableConfig } from '@langchain/core/runnables';
import { operation } from 'perdure';
import { z } from 'zod';
import { type Approval, askForApproval } from './approval.ts';
import { readClaim } from './claim.ts';
import { type Money, showMoney } from './money.ts';
import { paymentsAddress } from './payments-address.ts';
import { paymentsAt, type Refusal } from './payments-client.ts';
import { APPROVAL_LIMITS, checkPolicy, DAYS_TO_ASK } from './policy.ts';
import { type Outcome, writeReply } from './replies/write-reply.ts';
import { refundKind } from './settings.ts';
import { type RefundDone, refundDone, type RefundState, type RefundUpdate } from './state.ts';
import { parseTicket } from './ticket.ts';

/** Takes the ticket in and finds out what it asks for. @throws TicketError when it is none. */
export function readTicket(state: RefundState, config: RunnableConfig): RefundUpdate {
  const ticket = parseTicket(state.ticket);
  const claim = readClaim(ticket);
  const wants =
    claim.amount === null ? 'all of it' : showMoney({ amount: claim.amount, currency: claim.currency ?? '' });
  return {
    claim,
    refund_kind: refundKind(config.configurable?.['refund_kind']),
    log: {
      node: 'read_ticket',
      by: 'intake',
      did: `Read ticket ${ticket.id}: ${wants} back for ${claim.order_id ?? 'an order it does not name'}.`,
    },
  };
}

/** Asks the payment service for the order, as it stands now. */
export async function lookUpOrder({ claim }: RefundState): Promise<RefundUpdate> {
  const id = claim.order_id;
  if (id === null)
    return { order: null, log: { node: 'look_up_order', by: 'shop', did: 'There was no order to look up.' } };
  const url = await paymentsAddress();
  const { order } = await operation(
    'look_up_order',
    { kind: 'pure', args: { order_id: id } },
    async (call) => ({
      order: await paymentsAt(url, call.fetch).order(id),
    }),
  );
  const did =
    order === null
      ? `Found no order ${id}.`
      : `Found order ${id}: ${showMoney({ amount: order.paid, currency: order.currency })} paid, ${order.refunded} of it paid back.`;
  return { order, log: { node: 'look_up_order', by: 'shop', did } };
}

export function checkRules({ ticket, claim, order }: RefundState): RefundUpdate {
  const decision = checkPolicy(ticket, claim, order);
  const verdict = { refuse: 'Refused', refund: 'Granted', ask: 'Passed on to a person' }[decision.outcome];
  return {
    decision,
    log: { node: 'check_policy', by: 'policy', did: `${verdict}: ${decision.explanation}` },
  };
}

/** Waits, for as long as it takes, until a person says yes or no. */
export function waitForHumanApproval({ ticket, claim, decision }: RefundState): RefundUpdate {
  const approval = askForApproval({
    type: 'approve_refund',
    ticket_id: ticket.id,
    order_id: known(claim.order_id, 'order'),
    amount: known(decision.amount, 'amount'),
    currency: known(decision.currency, 'currency'),
    customer: { name: ticket.customer.name, email: ticket.customer.email },
    reason: decision.explanation,
    policy: {
      rule: decision.reason,
      limit: APPROVAL_LIMITS[known(decision.currency, 'currency')] ?? null,
      days_to_ask: DAYS_TO_ASK,
    },
  });
  const did = approval.approved ? `Approved. ${approval.note ?? ''}`.trim() : `Rejected: ${approval.reason}`;
  return { approval, log: { node: 'wait_for_human_approval', by: 'reviewer', did } };
}

/** Pays the money back: the one step that must not happen twice. */
export async function issueRefund({
  ticket,
  claim,
  decision,
  refund_kind,
}: RefundState): Promise<RefundUpdate> {
  const request = {
    order_id: known(claim.order_id, 'order'),
    amount: known(decision.amount, 'amount'),
    currency: known(decision.currency, 'currency'),
    reason: `${ticket.id}: ${decision.reason}`,
  };
  const url = await paymentsAddress();
  const paid: unknown = await operation(
    'issue_refund',
    {
      kind: refund_kind,
      // The order names the payment: planned again, by whatever way, it is still the same refund.
      key: `refund:${request.order_id}`,
      args: request,
      // Asked for the kind `reconcilable` alone.
      lookup: async (operationId) => {
        const found = await paymentsAt(url, fetch).findRefund(operationId);
        return found === undefined ? { happened: false } : { happened: true, result: found };
      },
      // For `perdure fork --effects dry`.
      simulate: ({ amount, currency }: Money) => ({ id: 'simulated', amount, currency }),
    },
    (call) => paymentsAt(url, call.fetch).refund(request),
  );
  const result = readResult(paid, request);
  if ('refused' in result)
    return {
      decision: { ...decision, outcome: 'refuse', reason: 'payment_refused', explanation: result.refused },
      log: { node: 'issue_refund', by: 'payments', did: `Said no: ${result.refused}` },
    };
  return {
    refund: result,
    log: { node: 'issue_refund', by: 'payments', did: `Paid back ${showMoney(result)} as ${result.id}.` },
  };
}

/** Writes to the customer in their language, and sends it. */
export async function writeToCustomer({
  ticket,
  claim,
  decision,
  approval,
  refund,
}: RefundState): Promise<RefundUpdate> {
  const status = outcomeOf(refund, approval);
  const reply = writeReply(ticket, claim, decision, status);
  const mail = { ticket_id: ticket.id, to: ticket.customer.email, text: reply };
  const url = await paymentsAddress();
  await operation('send_reply', { kind: 'idempotent', args: mail, simulate: () => 'not sent' }, (call) =>
    paymentsAt(url, call.fetch).send(mail),
  );
  return {
    status,
    reply,
    log: { node: 'write_to_customer', by: 'support', did: `Wrote to ${ticket.customer.email}: ${status}.` },
  };
}

/** Fields of the state that no node has written yet are undefined, whatever the schema says. */
function outcomeOf(refund: RefundDone | undefined, approval: Approval | undefined): Outcome {
  if (refund !== undefined) return 'refunded';
  return approval === undefined || approval.approved ? 'refused' : 'rejected_by_reviewer';
}

/**
 * What came of the refund: the service's answer, or what a person wrote who was asked whether it happened. Their
 * yes may come without an id; the money is then what was asked for.
 */
function readResult(result: unknown, { amount, currency }: Money): Refusal | RefundDone {
  const said = z.union([refusedResult, refundDone]).safeParse(result);
  return said.success ? said.data : { id: 'as stated by a person', amount, currency };
}

const refusedResult = z.object({ refused: z.string() });

/** What an earlier node has made sure of. */
function known<T>(value: T | null, what: string): T {
  if (value === null) throw new Error(`The ${what} is not known, though the policy let the claim pass.`);
  return value;
}
