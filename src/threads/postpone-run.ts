import { StaleFenceError } from '../contracts/errors.ts';
import type { ErrorRecord } from '../contracts/json.ts';
import type { Database } from '../postgres/database.ts';

/** What a run remembers of the failures of its nodes. */
export type RetryState = {
  /** The root checkpoint that the counts are for: they begin anew with the next superstep. */
  checkpoint_id: string | null;
  /** Failed attempts, by the id of the task. */
  failed: Record<string, number>;
  error: ErrorRecord;
};

/**
 * Lays the run aside until it may be tried again, only for the attempt that holds the fence. It stays `running`.
 * Repeating it after a lost reply is harmless.
 * @throws StaleFenceError when a newer attempt holds the thread.
 */
export async function postponeRun(
  database: Database,
  tenant: string,
  threadId: string,
  run: { run_id: string; fence: number; state: RetryState; delayMs: number },
): Promise<void> {
  const { rowCount } = await database.query(
    `WITH held AS (
       SELECT thread_id FROM ${database.table('threads')}
       WHERE tenant_id = $1 AND thread_id = $2 AND fence = $4 AND deleted_at IS NULL FOR UPDATE
     )
     UPDATE ${database.table('runs')} AS r
     SET retry_at = now() + $5 * interval '1 millisecond', retry = $6
     FROM held WHERE r.tenant_id = $1 AND r.run_id = $3 AND r.status = 'running'`,
    [tenant, threadId, run.run_id, run.fence, run.delayMs, JSON.stringify(run.state)],
  );
  if (rowCount === 0) throw new StaleFenceError(threadId, { run_id: run.run_id, fence: run.fence });
}

/** The thread's oldest unfinished run, where it waits to be tried again. */
export async function readPause(
  database: Database,
  tenant: string,
  threadId: string,
  version: string,
): Promise<{ run_id: string; left_ms: number } | undefined> {
  const { rows } = await database.query<{ run_id: string; left_ms: number | null }>(
    `SELECT r.run_id, ceil(extract(epoch FROM r.retry_at - now()) * 1000)::float8 AS left_ms
     FROM ${database.table('threads')} t JOIN ${database.table('runs')} r USING (tenant_id, thread_id)
     WHERE tenant_id = $1 AND thread_id = $2 AND t.version = $3 AND t.deleted_at IS NULL
       AND r.status IN ('pending', 'running') AND NOT r.held ORDER BY r.sequence LIMIT 1`,
    [tenant, threadId, version],
  );
  const row = rows[0];
  return row?.left_ms == null ? undefined : { run_id: row.run_id, left_ms: Math.max(row.left_ms, 0) };
}
