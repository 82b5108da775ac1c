import type { Database } from '../postgres/database.ts';
import type { Queryable } from './stop-runs.ts';

// While a thread asks what became of an operation, the input that was queued behind it is held: it would go on from a
// state in which the operation is open, and what comes after the operation would never be done. recordEnd() holds
// input and releases it, by what the thread asks when a run has ended. `threads.held_runs` counts what is held, and
// `unfinished_runs` the others, so that a thread with held runs alone is one that waits for a person.

/**
 * Lets the input that is held on a thread go on without the answer, in the order in which it came, unless a run is
 * under way, whose end decides. Locks the thread's row: `on` has to be a transaction.
 * @returns how many runs were released.
 */
export async function releaseHeld(
  on: Queryable,
  database: Database,
  tenant: string,
  threadId: string,
): Promise<number> {
  const at = [tenant, threadId];
  const { rows } = await on.query<{ held_runs: number; unfinished_runs: number }>(
    `SELECT held_runs, unfinished_runs FROM ${database.table('threads')} WHERE tenant_id = $1 AND thread_id = $2 FOR UPDATE`,
    at,
  );
  const [thread] = rows;
  if (!thread || thread.held_runs === 0 || thread.unfinished_runs > 0) return 0;
  const released = await on.query(
    `UPDATE ${database.table('runs')} SET held = false, signalled_at = NULL, signals = 0
     WHERE tenant_id = $1 AND thread_id = $2 AND status = 'pending' AND held`,
    at,
  );
  const count = released.rowCount ?? 0;
  await on.query(
    `UPDATE ${database.table('threads')} SET held_runs = 0, unfinished_runs = unfinished_runs + $3,
       status = CASE WHEN $3 > 0 THEN 'busy' ELSE status END, updated_at = now()
     WHERE tenant_id = $1 AND thread_id = $2`,
    [...at, count],
  );
  return count;
}

/**
 * Puts input that waits behind the thread's other runs, in its order: a thread's `sequence` is the order in which its
 * runs are executed, and what is held was asked for before the run that goes on with the answer. For a transaction that
 * has the thread's row.
 */
export async function moveInputBehind(
  on: Queryable,
  database: Database,
  tenant: string,
  threadId: string,
): Promise<void> {
  const { rows } = await on.query<{ run_id: string }>(
    `SELECT run_id FROM ${database.table('runs')}
     WHERE tenant_id = $1 AND thread_id = $2 AND status = 'pending' AND kind = 'input' ORDER BY sequence`,
    [tenant, threadId],
  );
  // One by one: a statement for all of them would number them in any order.
  for (const { run_id } of rows)
    await on.query(
      `UPDATE ${database.table('runs')} SET sequence = DEFAULT WHERE tenant_id = $1 AND run_id = $2`,
      [tenant, run_id],
    );
}

/**
 * Releases what is held on threads that ask about no operation any more and have nothing under way. The end of a run
 * leaves none such; this is for what nobody thought of.
 * @returns the threads.
 */
export async function releaseForgotten(database: Database, limit = 100): Promise<{ thread_id: string }[]> {
  const forgotten = `t.held_runs > 0 AND t.unfinished_runs = 0 AND t.deleted_at IS NULL AND NOT EXISTS (
    SELECT FROM ${database.table('interrupts')} i WHERE i.tenant_id = t.tenant_id AND i.thread_id = t.thread_id
      AND i.status = 'pending' AND i.kind = 'operation')`;
  const { rows } = await database.query<{ tenant_id: string; thread_id: string }>(
    `SELECT tenant_id, thread_id FROM ${database.table('threads')} t WHERE ${forgotten}
     ORDER BY tenant_id, thread_id LIMIT $1`,
    [limit],
  );
  const released: { thread_id: string }[] = [];
  for (const { tenant_id, thread_id } of rows)
    await database.transaction(async (client) => {
      const at = [tenant_id, thread_id];
      await client.query(
        `SELECT FROM ${database.table('threads')} WHERE tenant_id = $1 AND thread_id = $2 FOR UPDATE`,
        at,
      );
      // A statement of its own, which sees what was committed before the lock was had.
      const still = await client.query(
        `SELECT FROM ${database.table('threads')} t WHERE tenant_id = $1 AND thread_id = $2 AND ${forgotten}`,
        at,
      );
      if (still.rowCount === 0) return;
      if ((await releaseHeld(client, database, tenant_id, thread_id)) > 0) released.push({ thread_id });
    });
  return released;
}
