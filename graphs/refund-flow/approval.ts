import { interrupt } from '@langchain/langgraph';
import { z } from 'zod';

export const approval = z.union([
  z.strictObject({ approved: z.literal(true), note: z.string().optional() }),
  z.strictObject({ approved: z.literal(false), reason: z.string().min(1) }),
]);
export type Approval = z.infer<typeof approval>;

/** What a person may answer; a bare yes or no will do. */
const answer = z.union([
  approval,
  z.literal(true).transform((): Approval => ({ approved: true })),
  z.literal(false).transform((): Approval => ({ approved: false, reason: 'no reason given' })),
]);

const ANSWERS =
  'Answer with {"approved": true, "note": "…"} (the note may be left out), {"approved": false, "reason": "…"}, true or false.';

/** What the reviewer gets to see. */
export type ApprovalRequest = {
  type: 'approve_refund';
  ticket_id: string;
  order_id: string;
  amount: number;
  currency: string;
  customer: { name: string; email: string };
  /** Why a person is asked. */
  reason: string;
  policy: { rule: string; limit: number | null; days_to_ask: number };
};

/**
 * Waits for a person. An answer that is none of the known ones is asked again, with a word on what was wrong: it
 * must neither count as a no nor end the run. The loop is safe, since LangGraph gives the same answers in the same
 * order whenever the node runs again, and `interrupt` leaves the node when there is no further one.
 */
export function askForApproval(request: ApprovalRequest): Approval {
  let problem: string | undefined;
  for (;;) {
    const said = answer.safeParse(
      interrupt<ApprovalRequest & { answers: string; problem?: string }, unknown>({
        ...request,
        answers: ANSWERS,
        ...(problem === undefined ? {} : { problem }),
      }),
    );
    if (said.success) return said.data;
    problem = 'The last answer was not understood, so nothing was decided.';
  }
}
