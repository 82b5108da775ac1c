import { condition, proxyActivities } from '@temporalio/workflow';
import type { DueRequest, DueResult, ThreadActivities } from '../contracts/thread-workflow.ts';

/** Where the clocks of Temporal and Postgres differ, what is due here may not be due there yet: look again after this. */
const AGAIN_MS = 1_000;

const { fireDue } = proxyActivities<ThreadActivities>({
  // One transaction. It fails only where Postgres can't be reached.
  startToCloseTimeout: '30 seconds',
  retry: { initialInterval: '50 milliseconds', backoffCoefficient: 2, maximumInterval: '5 seconds' },
});

/**
 * Waits for a durable timer, then does what is due.
 * @returns undefined when something was announced first.
 */
export async function untilDue(
  { tenant_id, thread_id }: DueRequest,
  due: string,
  announced: () => boolean,
): Promise<DueResult | undefined> {
  if (await condition(announced, Math.max(1, Date.parse(due) - Date.now()))) return undefined;
  const fired = await fireDue({ tenant_id, thread_id });
  if (!fired.more && fired.next_due === due) await condition(announced, AGAIN_MS);
  return fired;
}
