import { ReducedValue, StateSchema } from '@langchain/langgraph';
import { z } from 'zod';
import { approval } from './approval.ts';
import { orderView } from './payments/contracts.ts';
import { decision } from './policy.ts';
import { REFUND_KINDS } from './settings.ts';
import { claim, ticket } from './ticket.ts';

/** What was done, by whom, in words for support people. Without times: those are in the thread's history. */
const logEntry = z.object({ node: z.string(), by: z.string(), did: z.string() });
export type LogEntry = z.infer<typeof logEntry>;

/** Money that was paid back. */
export const refundDone = z.object({ id: z.string(), amount: z.number(), currency: z.string() });
export type RefundDone = z.infer<typeof refundDone>;

/** The input is `{ ticket }`; each further field is written by one node. */
export const refundState = new StateSchema({
  ticket,
  /** By `read_ticket`. */
  claim,
  /** By `read_ticket`, from the run's config, so that an answer months later finds the same. */
  refund_kind: z.enum(REFUND_KINDS),
  /** By `look_up_order`; null when there is none. */
  order: orderView.nullable(),
  /** By `check_policy`, and by `issue_refund` when the payment service says no. */
  decision,
  /** By `wait_for_human_approval`. */
  approval,
  /** By `issue_refund`. */
  refund: refundDone,
  /** By `write_to_customer`. */
  status: z.enum(['refunded', 'refused', 'rejected_by_reviewer']),
  /** By `write_to_customer`: what was sent. */
  reply: z.string(),
  /** By every node. */
  log: new ReducedValue(
    z.array(logEntry).default(() => []),
    {
      inputSchema: logEntry,
      reducer: (entries, entry) => [...entries, entry],
    },
  ),
});
export type RefundState = typeof refundState.State;
export type RefundUpdate = typeof refundState.Update;
