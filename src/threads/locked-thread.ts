import type pg from 'pg';
import { ThreadDeletedError, UnknownThreadError } from '../contracts/errors.ts';
import type { Database } from '../postgres/database.ts';

export type LockedThread = {
  graph: string;
  version: string;
  status: 'idle' | 'busy' | 'interrupted' | 'error';
  unfinished_runs: number;
  head_checkpoint_id: string | null;
};

/**
 * Locks the thread's row until the transaction ends, so that whoever asks, answers or cancels is served in turn.
 * @throws UnknownThreadError | ThreadDeletedError
 */
export async function lockThread(
  client: pg.PoolClient,
  database: Database,
  tenant: string,
  thread: string,
): Promise<LockedThread> {
  const { rows } = await client.query<LockedThread & { deleted_at: Date | null }>(
    `SELECT graph, version, status, unfinished_runs, head_checkpoint_id, deleted_at
     FROM ${database.table('threads')} WHERE tenant_id = $1 AND thread_id = $2 FOR UPDATE`,
    [tenant, thread],
  );
  const row = rows[0];
  if (!row) throw new UnknownThreadError(thread);
  if (row.deleted_at !== null) throw new ThreadDeletedError(thread);
  return row;
}
