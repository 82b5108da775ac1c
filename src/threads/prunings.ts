import type pg from 'pg';
import { PrunedCheckpointError, UnknownCheckpointError, type PerdureError } from '../contracts/errors.ts';
import type { KeptReason, PrunedRows, PruningPolicy } from '../contracts/pruning.ts';
import type { Database } from '../postgres/database.ts';

/** What reads: the database, or a transaction under way. */
type Reader = {
  query<R extends pg.QueryResultRow>(text: string, values?: unknown[]): Promise<pg.QueryResult<R>>;
};

/** A thread that is to be pruned, locked until the transaction ends. */
export type ThreadToPrune = {
  graph: string;
  checkpoint_thread_id: string;
  unfinished_runs: number;
  status: string;
  head_checkpoint_id: string | null;
  rewound_to: string | null;
  /** The database's clock. */
  now: Date;
};

/** Undefined where there is no such thread, or it was deleted. */
export async function lockThreadToPrune(
  client: pg.PoolClient,
  database: Database,
  tenant: string,
  threadId: string,
): Promise<ThreadToPrune | undefined> {
  const { rows } = await client.query<ThreadToPrune>(
    `SELECT graph, checkpoint_thread_id, unfinished_runs, status, head_checkpoint_id, rewound_to, now() AS now
     FROM ${database.table('threads')} WHERE tenant_id = $1 AND thread_id = $2 AND deleted_at IS NULL FOR UPDATE`,
    [tenant, threadId],
  );
  return rows[0];
}

/** Checkpoints that the thread, its questions, or a failed run that can be tried again refer to. */
export async function neededCheckpoints(
  client: pg.PoolClient,
  database: Database,
  tenant: string,
  threadId: string,
  thread: ThreadToPrune,
): Promise<{ ns: string; id: string; reason: KeptReason }[]> {
  const { rows } = await client.query<{ ns: string; id: string; reason: KeptReason }>(
    `SELECT '' AS ns, checkpoint_id AS id, 'question' AS reason FROM ${database.table('interrupts')}
     WHERE tenant_id = $1 AND thread_id = $2 AND status = 'pending'
     UNION ALL
     SELECT origin_ns, origin_checkpoint_id, 'question' FROM ${database.table('interrupts')}
     WHERE tenant_id = $1 AND thread_id = $2 AND status = 'pending'
     UNION ALL
     SELECT u.ns, u.id, 'retry' FROM (
       SELECT * FROM ${database.table('runs')}
       WHERE tenant_id = $1 AND thread_id = $2 AND status = 'error' AND $3 ORDER BY sequence DESC LIMIT 1) r
     CROSS JOIN LATERAL (VALUES ('', r.base_checkpoint_id), ('', r.fork_checkpoint_id), ('', r.checkpoint_id),
       (r.fork_ns, r.fork_ns_checkpoint_id)) AS u(ns, id) WHERE u.id IS NOT NULL`,
    [tenant, threadId, thread.status === 'error'],
  );
  const heads = [thread.head_checkpoint_id, thread.rewound_to].flatMap((id) =>
    id === null ? [] : [{ ns: '', id, reason: 'head' as const }],
  );
  return [...heads, ...rows];
}

export type Pruning = PrunedRows & { roots: readonly string[]; policy: PruningPolicy; actor: string };

export async function recordPruning(
  client: pg.PoolClient,
  database: Database,
  tenant: string,
  threadId: string,
  { roots, policy, actor, ...rows }: Pruning,
): Promise<void> {
  const [first] = roots;
  const last = roots.at(-1);
  if (first === undefined || last === undefined) return;
  await client.query(
    `INSERT INTO ${database.table('thread_prunings')} (tenant_id, thread_id, first_checkpoint_id, last_checkpoint_id,
       checkpoints, blobs, writes, elements, bytes, policy, actor) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
    [
      tenant,
      threadId,
      first,
      last,
      rows.checkpoints,
      rows.blobs,
      rows.writes,
      rows.elements,
      rows.bytes,
      JSON.stringify(policy),
      actor,
    ],
  );
}

/** When checkpoints around this one were pruned first; null where none were. */
export async function prunedAt(
  reader: Reader,
  database: Database,
  tenant: string,
  threadId: string,
  checkpointId: string,
): Promise<string | null> {
  const { rows } = await reader.query<{ at: Date }>(
    `SELECT pruned_at AS at FROM ${database.table('thread_prunings')}
     WHERE tenant_id = $1 AND thread_id = $2 AND $3 COLLATE "C" >= first_checkpoint_id AND $3 COLLATE "C" <= last_checkpoint_id
     ORDER BY sequence LIMIT 1`,
    [tenant, threadId, checkpointId],
  );
  return rows[0]?.at.toISOString() ?? null;
}

/** The error for a checkpoint that isn't there: pruned, where that can be known, or unknown. */
export async function absentCheckpoint(
  reader: Reader,
  database: Database,
  tenant: string,
  threadId: string,
  checkpointId: string,
): Promise<PerdureError> {
  const at = await prunedAt(reader, database, tenant, threadId, checkpointId);
  return at === null
    ? new UnknownCheckpointError(threadId, checkpointId)
    : new PrunedCheckpointError(threadId, checkpointId, at);
}

/** What pruning has taken from a thread. */
export type PrunedHistory = { pruned_at: string; checkpoints: number };

/** The newest pruning, and how many checkpoints went in all; null where nothing was pruned. */
export async function readPrunedHistory(
  database: Database,
  tenant: string,
  threadId: string,
): Promise<PrunedHistory | null> {
  const { rows } = await database.query<{ at: Date | null; checkpoints: number }>(
    `SELECT max(pruned_at) AS at, coalesce(sum(checkpoints), 0)::int AS checkpoints FROM ${database.table('thread_prunings')}
     WHERE tenant_id = $1 AND thread_id = $2`,
    [tenant, threadId],
  );
  const [row] = rows;
  return row?.at ? { pruned_at: row.at.toISOString(), checkpoints: row.checkpoints } : null;
}
