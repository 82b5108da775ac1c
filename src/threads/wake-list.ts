import type { Database } from '../postgres/database.ts';
import type { RecordedRun } from './request-run.ts';

/** How long a fresh run is left to whoever recorded it before the sweeper wakes its thread, in ms. */
export const SWEEP_AFTER_MS = 1_000;
/** The first time after which a run that was signalled is looked at again, in ms; it doubles up to SWEEP_MAX_MS. */
export const SWEEP_AGAIN_MS = 30_000;
export const SWEEP_MAX_MS = 3_600_000;

export type UnfinishedRun = RecordedRun & {
  tenant_id: string;
  signals: number;
  status: 'pending' | 'running';
  /** Whether the run is to be cancelled, rather than to go on. */
  cancel: boolean;
};

export async function markSignalled(database: Database, tenant: string, runId: string): Promise<void> {
  await database.prepared(
    `UPDATE ${database.table('runs')} SET signalled_at = now(), signals = signals + 1 WHERE tenant_id = $1 AND run_id = $2`,
    [tenant, runId],
  );
}

/**
 * Runs, the oldest of their threads, whose thread may have to be woken (again), or told of a cancel. They are marked as signalled by the same
 * statement, so that several sweepers share the work; one that dies in between leaves them to the next round. Runs of
 * threads that were deleted are ended instead.
 */
export async function takeUnsignalled(database: Database, limit = 100): Promise<UnfinishedRun[]> {
  const { rows } = await database.query<UnfinishedRun>(
    `WITH gone AS (
       UPDATE ${database.table('runs')} AS r SET status = 'cancelled', finished_at = now()
       FROM ${database.table('threads')} t
       WHERE r.status IN ('pending', 'running') AND t.tenant_id = r.tenant_id AND t.thread_id = r.thread_id
         AND t.deleted_at IS NOT NULL
       RETURNING r.run_id, pg_notify('perdure_runs', r.run_id::text)
     ), due AS (
       SELECT r.tenant_id, r.run_id, t.thread_id, t.graph, t.version
       FROM ${database.table('runs')} r JOIN ${database.table('threads')} t USING (tenant_id, thread_id)
       WHERE r.status IN ('pending', 'running') AND NOT r.held AND t.deleted_at IS NULL AND (
         (r.signalled_at IS NULL AND r.status = 'pending' AND r.created_at < now() - $1 * interval '1 millisecond')
         OR (r.signalled_at IS NULL AND r.status = 'running' AND r.started_at < now() - $2 * interval '1 millisecond')
         OR (r.signalled_at < r.retry_at AND r.retry_at < now() - $1 * interval '1 millisecond')
         OR (coalesce(r.signalled_at < r.cancel_requested_at, true) AND r.cancel_requested_at < now() - $1 * interval '1 millisecond')
         OR r.signalled_at < now() - least($2 * power(2, least(r.signals, 20)), $3) * interval '1 millisecond')
         AND NOT EXISTS (
           SELECT FROM ${database.table('runs')} e WHERE e.tenant_id = r.tenant_id AND e.thread_id = r.thread_id
             AND e.status IN ('pending', 'running') AND NOT e.held AND e.sequence < r.sequence)
       ORDER BY r.sequence LIMIT $4 FOR UPDATE OF r SKIP LOCKED
     )
     UPDATE ${database.table('runs')} AS r SET signalled_at = now(), signals = r.signals + 1
     FROM due
     WHERE r.tenant_id = due.tenant_id AND r.run_id = due.run_id
     RETURNING r.tenant_id, r.run_id, r.thread_id, r.signals, r.status, due.graph, due.version,
       r.cancel_requested_at IS NOT NULL AS cancel`,
    [SWEEP_AFTER_MS, SWEEP_AGAIN_MS, SWEEP_MAX_MS, limit],
  );
  return rows;
}

/** How long a thread that was signalled is believed to have heard, where all are to be woken, in ms. */
const JUST_SIGNALLED_MS = 10_000;

/**
 * Has the sweeper look after every unfinished run at once, but for those that it or a client has just told of: when
 * workers start, and when it turns out that Temporal or Postgres has lost something.
 */
export async function wakeEverything(database: Database): Promise<void> {
  await database.query(
    `UPDATE ${database.table('runs')} SET signalled_at = now() - $1 * interval '1 millisecond', signals = 0
     WHERE status IN ('pending', 'running') AND signalled_at < now() - $2 * interval '1 millisecond'`,
    [SWEEP_AGAIN_MS * 2, JUST_SIGNALLED_MS],
  );
}

/** A few threads, taken at random, of which Temporal has been told: their workflows have to be open. */
export async function sampleSignalled(database: Database, count: number): Promise<UnfinishedRun[]> {
  const { rows } = await database.query<UnfinishedRun>(
    `SELECT r.tenant_id, r.run_id, r.thread_id, r.signals, r.status, t.graph, t.version, false AS cancel
     FROM ${database.table('runs')} r JOIN ${database.table('threads')} t USING (tenant_id, thread_id)
     WHERE r.status IN ('pending', 'running') AND NOT r.held AND r.signals > 0 AND t.deleted_at IS NULL
       AND NOT t.stray_workflow
       AND r.signalled_at BETWEEN now() - interval '1 day' AND now() - $1 * interval '1 millisecond'
     ORDER BY random() LIMIT $2`,
    [SWEEP_AFTER_MS, count],
  );
  return rows;
}
