import type { Database } from '../postgres/database.ts';

/** A thread whose open workflow, if it has one, may sit on the task queue of another version. */
export type StrayThread = { tenant_id: string; thread_id: string; graph: string; version: string };

/**
 * Notes that a workflow of the thread asked for a version that the thread is no longer under, so that a sweeper ends
 * it and wakes the thread where it belongs. Does nothing when the version is the thread's.
 * @returns whether the thread is known at all.
 */
export async function noteStray(
  database: Database,
  tenant: string,
  threadId: string,
  asked: string,
): Promise<boolean> {
  const { rows } = await database.query<{ known: boolean }>(
    `WITH stray AS (
       UPDATE ${database.table('threads')} SET stray_workflow = true
       WHERE tenant_id = $1 AND thread_id = $2 AND version <> $3 AND NOT stray_workflow AND deleted_at IS NULL
     )
     SELECT EXISTS (SELECT FROM ${database.table('threads')} WHERE tenant_id = $1 AND thread_id = $2) AS known`,
    [tenant, threadId, asked],
  );
  return rows[0]?.known ?? false;
}

export async function strayThreads(database: Database, limit: number): Promise<StrayThread[]> {
  const { rows } = await database.query<StrayThread>(
    `SELECT tenant_id, thread_id, graph, version FROM ${database.table('threads')} WHERE stray_workflow
     ORDER BY tenant_id, thread_id LIMIT $1`,
    [limit],
  );
  return rows;
}

/**
 * The stray workflow has ended. Whoever asks something of the thread from now on starts one in its place.
 * @returns the oldest unfinished run, of which the thread has to be told; undefined when none waits, or when the
 *   thread has moved once more.
 */
export async function straySettled(
  database: Database,
  thread: StrayThread,
): Promise<{ run_id: string; cancel: boolean } | undefined> {
  const at = [thread.tenant_id, thread.thread_id];
  const { rowCount } = await database.query(
    `UPDATE ${database.table('threads')} SET stray_workflow = false
     WHERE tenant_id = $1 AND thread_id = $2 AND version = $3`,
    [...at, thread.version],
  );
  if (rowCount === 0) return undefined;
  // A statement of its own, so that it sees a run that was recorded while the first one waited.
  const { rows } = await database.query<{ run_id: string; cancel: boolean }>(
    `SELECT run_id, cancel_requested_at IS NOT NULL AS cancel FROM ${database.table('runs')}
     WHERE tenant_id = $1 AND thread_id = $2 AND status IN ('pending', 'running') AND NOT held
     ORDER BY sequence LIMIT 1`,
    at,
  );
  return rows[0];
}
