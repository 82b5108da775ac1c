import type { AdvanceRequest, AdvanceResult } from '../contracts/thread-workflow.ts';
import type { Database } from '../postgres/database.ts';
import { nextDue } from '../threads/deadlines.ts';
import { readPause } from '../threads/postpone-run.ts';
import { noteStray } from '../threads/stray-workflows.ts';

export type NothingDueOptions = {
  database: Database;
  /** Called when a workflow asks for a thread that Postgres does not know. */
  onUnknownThread?: (request: AdvanceRequest) => void;
};

/** No run waits, or one that is to be tried again later; or the thread is under another version by now. */
export async function nothingDue(
  { database, onUnknownThread }: NothingDueOptions,
  request: AdvanceRequest,
): Promise<AdvanceResult> {
  const { tenant_id: tenant, thread_id: thread, version } = request;
  if (!(await noteStray(database, tenant, thread, version))) onUnknownThread?.(request);
  const pause = await readPause(database, tenant, thread, version);
  if (pause === undefined) {
    const next_due = await nextDue(database, database, tenant, thread, version);
    return { outcome: 'idle', run_id: null, next_due };
  }
  return { outcome: 'retry', run_id: pause.run_id, more: true, retry_in_ms: pause.left_ms };
}
