import type pg from 'pg';
import type { EffectView, StoppedRuns } from '../contracts/runs.ts';
import type { Database } from '../postgres/database.ts';

/** The pool, for a statement of its own, or the connection of a transaction. */
export type Queryable = {
  query<R extends pg.QueryResultRow>(text: string, values?: unknown[]): Promise<pg.QueryResult<R>>;
};

/**
 * Stops the thread's unfinished runs on behalf of a newer one, as LangGraph's platform does: also those that have not
 * begun, and input that is held. Takes the thread's row lock. A run that waits for a person has ended, and is let be.
 * @returns undefined when nothing was unfinished or held.
 */
export async function stopUnfinished(
  client: pg.PoolClient,
  database: Database,
  tenant: string,
  { thread_id: thread, run_id: run }: { thread_id: string; run_id: string },
  strategy: 'interrupt' | 'rollback',
): Promise<StoppedRuns | undefined> {
  const locked = await client.query<{ stoppable: number }>(
    `SELECT unfinished_runs + held_runs AS stoppable FROM ${database.table('threads')} WHERE tenant_id = $1 AND thread_id = $2 FOR UPDATE`,
    [tenant, thread],
  );
  if (!locked.rows[0]?.stoppable) return undefined;
  const stopAs = strategy === 'rollback' ? 'rolled_back' : 'interrupted';
  // One that is to be rolled back stays that, whoever comes after.
  const running = await client.query<{ run_id: string }>(
    `UPDATE ${database.table('runs')} SET cancel_requested_at = coalesce(cancel_requested_at, now()),
       stop_as = CASE WHEN stop_as = 'rolled_back' THEN stop_as ELSE $3 END, stopped_by = coalesce(stopped_by, $4)
     WHERE tenant_id = $1 AND thread_id = $2 AND status = 'running' RETURNING run_id`,
    [tenant, thread, stopAs, run],
  );
  const dropped = await client.query<{ run_id: string }>(
    `UPDATE ${database.table('runs')} SET status = $3, stop_as = $3, stopped_by = $4, held = false, finished_at = now()
     WHERE tenant_id = $1 AND thread_id = $2 AND status = 'pending'
     RETURNING run_id, pg_notify('perdure_runs', run_id::text)`,
    [tenant, thread, stopAs, run],
  );
  await client.query(
    `UPDATE ${database.table('threads')} SET unfinished_runs = $3, held_runs = 0 WHERE tenant_id = $1 AND thread_id = $2`,
    [tenant, thread, running.rows.length],
  );
  const stopping = running.rows[0]?.run_id ?? null;
  return {
    stopping_run: stopping,
    dropped_runs: dropped.rows.map((row) => row.run_id),
    effects: stopping === null ? [] : await effectsOf(client, database, tenant, stopping),
  };
}

/** What a run did outside, or may have done, in the order in which it began. Operations that have no effect are left out. */
export async function effectsOf(
  on: Queryable,
  database: Database,
  tenant: string,
  run: string,
): Promise<EffectView[]> {
  const { rows } = await on.query<EffectView>(
    `SELECT operation_id, node, tool, status, args FROM ${database.table('operations')}
     WHERE tenant_id = $1 AND run_id = $2 AND kind <> 'pure' AND status IN ('running', 'succeeded', 'unknown')
     ORDER BY sequence`,
    [tenant, run],
  );
  return rows;
}
