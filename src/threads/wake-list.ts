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
  await database.query(
    `UPDATE ${database.table('runs')} SET signalled_at = now(), signals = signals + 1 WHERE tenant_id = $1 AND run_id = $2`,
    [tenant, runId],
  );
}

/**
 * Runs whose thread may have to be woken (again), or told of a cancel. They are marked as signalled by the same
 * statement, so that several sweepers share the work; one that dies in between leaves them to the next round.
 */
export async function takeUnsignalled(database: Database, limit = 100): Promise<UnfinishedRun[]> {
  const { rows } = await database.query<UnfinishedRun>(
    `WITH due AS (
       SELECT tenant_id, run_id FROM ${database.table('runs')}
       WHERE status IN ('pending', 'running') AND (
         (signalled_at IS NULL AND created_at < now() - $1 * interval '1 millisecond')
         OR (signalled_at < cancel_requested_at AND cancel_requested_at < now() - $1 * interval '1 millisecond')
         OR signalled_at < now() - least($2 * power(2, least(signals, 20)), $3) * interval '1 millisecond')
       ORDER BY sequence LIMIT $4 FOR UPDATE SKIP LOCKED
     )
     UPDATE ${database.table('runs')} AS r SET signalled_at = now(), signals = r.signals + 1
     FROM due, ${database.table('threads')} t
     WHERE r.tenant_id = due.tenant_id AND r.run_id = due.run_id
       AND t.tenant_id = r.tenant_id AND t.thread_id = r.thread_id
     RETURNING r.tenant_id, r.run_id, r.thread_id, r.signals, r.status, t.graph, t.version,
       r.cancel_requested_at IS NOT NULL AS cancel`,
    [SWEEP_AFTER_MS, SWEEP_AGAIN_MS, SWEEP_MAX_MS, limit],
  );
  return rows;
}
