import type { Database } from '../postgres/database.ts';
import { lockThread } from './locked-thread.ts';

export type Cancelled = {
  thread_id: string;
  graph: string;
  version: string;
  /** Runs that had not begun, or waited for a person; they are `cancelled` now. */
  cancelled_runs: string[];
  /** The run that a worker has in hand; it ends as soon as its worker has heard. */
  stopping_run: string | null;
  withdrawn_interrupts: string[];
};

/**
 * Ends whatever the thread has under way: queued runs and pending interrupts at once, a running one through its
 * worker. Repeating it is harmless.
 * @throws UnknownThreadError | ThreadDeletedError
 */
export async function cancelThread(database: Database, tenant: string, threadId: string): Promise<Cancelled> {
  return database.transaction(async (client) => {
    const thread = await lockThread(client, database, tenant, threadId);
    const at = [tenant, threadId];
    const running = await client.query<{ run_id: string }>(
      `UPDATE ${database.table('runs')} SET cancel_requested_at = coalesce(cancel_requested_at, now())
       WHERE tenant_id = $1 AND thread_id = $2 AND status = 'running' RETURNING run_id`,
      at,
    );
    const queued = await client.query<{ run_id: string }>(
      `UPDATE ${database.table('runs')} SET status = 'cancelled', held = false, finished_at = now()
       WHERE tenant_id = $1 AND thread_id = $2 AND status = 'pending'
       RETURNING run_id, pg_notify('perdure_runs', run_id::text)`,
      at,
    );
    const withdrawn = await client.query<{ interrupt_id: string }>(
      `UPDATE ${database.table('interrupts')} SET status = 'cancelled'
       WHERE tenant_id = $1 AND thread_id = $2 AND status = 'pending' RETURNING interrupt_id`,
      at,
    );
    const waiting = await client.query<{ run_id: string }>(
      `UPDATE ${database.table('runs')} SET status = 'cancelled'
       WHERE tenant_id = $1 AND thread_id = $2 AND status = 'interrupted' AND $3
         AND sequence = (SELECT max(sequence) FROM ${database.table('runs')}
                         WHERE tenant_id = $1 AND thread_id = $2 AND status = 'interrupted')
       RETURNING run_id`,
      [...at, thread.status === 'interrupted'],
    );
    const left = running.rows.length;
    await client.query(
      `UPDATE ${database.table('threads')} SET unfinished_runs = $3, held_runs = 0, updated_at = now(),
         status = CASE WHEN $3 > 0 THEN 'busy' WHEN status = 'error' THEN 'error' ELSE 'idle' END
       WHERE tenant_id = $1 AND thread_id = $2`,
      [...at, left],
    );
    return {
      thread_id: threadId,
      graph: thread.graph,
      version: thread.version,
      cancelled_runs: [...queued.rows, ...waiting.rows].map((row) => row.run_id),
      stopping_run: running.rows[0]?.run_id ?? null,
      withdrawn_interrupts: withdrawn.rows.map((row) => row.interrupt_id),
    };
  });
}

/** What a run is to end as, where it was cancelled, or stopped by newer input. */
export async function askedToEndAs(
  database: Database,
  tenant: string,
  runId: string,
): Promise<'cancelled' | 'interrupted' | 'rolled_back' | undefined> {
  const { rows } = await database.query<{ stop_as: 'cancelled' | 'interrupted' | 'rolled_back' }>(
    `SELECT coalesce(stop_as, 'cancelled') AS stop_as FROM ${database.table('runs')}
     WHERE tenant_id = $1 AND run_id = $2 AND cancel_requested_at IS NOT NULL`,
    [tenant, runId],
  );
  return rows[0]?.stop_as;
}
