import type pg from 'pg';
import {
  InvalidInputError,
  ThreadBusyError,
  ThreadDeletedError,
  ThreadExistsError,
  UnknownThreadError,
} from '../contracts/errors.ts';
import type { EffectsMode } from '../contracts/runs.ts';
import type { Database } from '../postgres/database.ts';
import { branchId } from '../contracts/ids.ts';
import { absentCheckpoint } from './prunings.ts';
import { requireSameVersion } from './request-fork.ts';

/** The thread that is copied, as the transaction sees it, and the root checkpoint that its copy stands at. */
export type CopySource = {
  thread_id: string;
  checkpoint_thread_id: string;
  graph: string;
  version: string;
  lineage_root: string;
  checkpoint_id: string;
  state_version: number;
  /** Nodes that come next there. */
  next: string[];
  config: unknown;
  /**
   * How the thread stands, where it stands at that checkpoint and nothing is under way: the copy stands as it does.
   * Undefined at an older checkpoint: the copy stands before what came after it.
   */
  standing: 'idle' | 'interrupted' | 'error' | undefined;
};

type SourceRow = Omit<CopySource, 'checkpoint_id' | 'state_version' | 'next' | 'config' | 'standing'> & {
  status: 'idle' | 'busy' | 'interrupted' | 'error';
  head: string | null;
  state_version: number;
  deleted: boolean;
  busy_with: string | null;
};

/** @throws UnknownThreadError | ThreadDeletedError | ThreadBusyError | UnknownCheckpointError | PrunedCheckpointError | VersionMismatchError | InvalidInputError */
export async function readCopySource(
  client: pg.PoolClient,
  database: Database,
  tenant: string,
  threadId: string,
  at: string | undefined,
): Promise<CopySource> {
  const { rows } = await client.query<SourceRow>(
    `SELECT thread_id, checkpoint_thread_id, graph, version, lineage_root, status, state_version,
       deleted_at IS NOT NULL AS deleted, CASE WHEN rewound THEN rewound_to ELSE head_checkpoint_id END AS head,
       (SELECT run_id FROM ${database.table('runs')} r WHERE r.tenant_id = t.tenant_id AND r.thread_id = t.thread_id
          AND r.status IN ('pending', 'running') AND NOT r.held ORDER BY sequence LIMIT 1) AS busy_with
     FROM ${database.table('threads')} t WHERE tenant_id = $1 AND thread_id = $2`,
    [tenant, threadId],
  );
  const [thread] = rows;
  if (!thread) throw new UnknownThreadError(threadId);
  if (thread.deleted) throw new ThreadDeletedError(threadId);
  if (at === undefined && thread.busy_with !== null) throw new ThreadBusyError(threadId, thread.busy_with);
  const checkpointId = at ?? thread.head;
  if (checkpointId === null)
    throw new InvalidInputError(`Thread '${threadId}' has no checkpoint yet: there is nothing to copy.`, {
      thread_id: threadId,
    });
  const found = await client.query<{
    graph_version: string | null;
    state_version: number | null;
    next: string[] | null;
    config: unknown;
  }>(
    `SELECT c.metadata ->> 'graph_version' AS graph_version, (c.metadata ->> 'state_version')::int AS state_version,
       c.metadata -> 'pending_tasks' AS next, r.config
     FROM ${database.table('checkpoints')} c
     LEFT JOIN ${database.table('runs')} r ON r.tenant_id = $1 AND r.run_id::text = c.metadata ->> 'run_id'
     WHERE c.thread_id = $2 AND c.checkpoint_ns = '' AND c.checkpoint_id = $3`,
    [tenant, thread.checkpoint_thread_id, checkpointId],
  );
  const [checkpoint] = found.rows;
  if (!checkpoint) throw await absentCheckpoint(client, database, tenant, threadId, checkpointId);
  requireSameVersion(thread, checkpointId, checkpoint.graph_version);
  const { head, status, busy_with: busyWith, deleted: _, ...rest } = thread;
  const settled = checkpointId === head && busyWith === null && status !== 'busy';
  return {
    ...rest,
    checkpoint_id: checkpointId,
    state_version: checkpoint.state_version ?? thread.state_version,
    next: checkpoint.next ?? [],
    config: checkpoint.config ?? {},
    standing: settled ? status : undefined,
  };
}

export type Copy = { threadId: string; checkpointThreadId: string; runId: string };

/**
 * Records the new thread, on a branch of its own, and a run that has ended as the one did which brought the original
 * to where it stands. @throws ThreadExistsError
 */
export async function insertCopy(
  client: pg.PoolClient,
  database: Database,
  tenant: string,
  source: CopySource,
  copy: Copy & { effects: EffectsMode; actor: string },
): Promise<void> {
  try {
    await client.query(
      `INSERT INTO ${database.table('threads')} (tenant_id, thread_id, checkpoint_thread_id, graph, version, lineage_root,
         head_checkpoint_id, state_version, branch_id, branch_effects, copied_from, copied_at)
       VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $7)`,
      [
        tenant,
        copy.threadId,
        copy.checkpointThreadId,
        source.graph,
        source.version,
        source.lineage_root,
        source.checkpoint_id,
        source.state_version,
        branchId(copy.runId),
        copy.effects,
        source.thread_id,
      ],
    );
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === '23505')
      throw new ThreadExistsError(copy.threadId);
    throw error;
  }
  // A request that failed before it was taken up is not in the checkpoint, so the copy does not stand at its error.
  // Where the original stopped at an error, the copy can be retried; where at a question or before a node, go on.
  await client.query(
    `WITH last AS (
       SELECT status, error, next FROM ${database.table('runs')}
       WHERE tenant_id = $1 AND thread_id = $4 AND $8::text IS NOT NULL AND checkpoint_id = $5
         AND (kind NOT IN ('input', 'fork') OR base_checkpoint_id IS DISTINCT FROM checkpoint_id)
       ORDER BY sequence DESC LIMIT 1
     ), stands AS (
       SELECT CASE WHEN $8 = 'error' AND last.status = 'error' THEN 'error'
                   WHEN $8 = 'interrupted' OR ($8 IS NULL AND json_array_length($9::json) > 0) THEN 'interrupted'
                   ELSE 'success' END AS status, last.error, last.next
       FROM (SELECT 1) one LEFT JOIN last ON true
     ), r AS (
       INSERT INTO ${database.table('runs')} (tenant_id, run_id, thread_id, kind, config, actor, status, checkpoint_id,
         effects, error, next, attempts, started_at, finished_at)
       SELECT $1, $2, $3, 'copy', $6, $7, status, $5, $10,
         CASE WHEN status = 'error' THEN error END,
         CASE WHEN status = 'interrupted' THEN coalesce(next, $9::json) END, 1, now(), now()
       FROM stands RETURNING status
     )
     UPDATE ${database.table('threads')} SET status = CASE r.status WHEN 'success' THEN 'idle' ELSE r.status END
     FROM r WHERE tenant_id = $1 AND thread_id = $3`,
    [
      tenant,
      copy.runId,
      copy.threadId,
      source.thread_id,
      source.checkpoint_id,
      JSON.stringify(source.config),
      copy.actor,
      source.standing ?? null,
      JSON.stringify(source.next),
      copy.effects,
    ],
  );
}

/** A pending question about an effect that its branch had not run yet. */
export type AskedEffect = {
  interrupt_id: string;
  operation_id: string;
  args_hash: string;
  origin_ns: string;
  origin_task_id: string;
};

/**
 * Copies the questions that the original waits with, to be answered in the copy by themselves, and the answers given
 * beside them that their tasks have yet to take.
 * @param prefix that ids of questions about new effects begin with. @returns those of them that were copied.
 */
export async function copyQuestions(
  client: pg.PoolClient,
  database: Database,
  tenant: string,
  source: CopySource,
  copy: Copy,
  prefix: string,
): Promise<AskedEffect[]> {
  const ids = [tenant, source.thread_id, copy.threadId];
  await client.query(
    `INSERT INTO ${database.table('interrupts')} (tenant_id, thread_id, interrupt_id, run_id, kind, node, checkpoint_id,
       origin_ns, origin_checkpoint_id, origin_task_id, operation_id, value, status, answer, answered_by, answered_at,
       answered_from, answer_run_id, due_at, on_due, escalation_level, escalations)
     SELECT tenant_id, $3, interrupt_id, $5, kind, node, checkpoint_id, origin_ns, origin_checkpoint_id, origin_task_id,
       operation_id, value, status, answer, answered_by, answered_at, answered_from, answer_run_id, due_at, on_due,
       escalation_level, escalations
     FROM ${database.table('interrupts')} WHERE tenant_id = $1 AND thread_id = $2 AND checkpoint_id = $4
       AND (status = 'pending' OR (status = 'answered' AND kind <> 'operation')) ORDER BY sequence`,
    [...ids, source.checkpoint_id, copy.runId],
  );
  await client.query(
    `INSERT INTO ${database.table('deadlines')} (tenant_id, thread_id, interrupt_id, kind, due_at, on_due)
     SELECT tenant_id, $3, interrupt_id, kind, due_at, on_due FROM ${database.table('deadlines')} d
     WHERE tenant_id = $1 AND thread_id = $2 AND EXISTS (
       SELECT FROM ${database.table('interrupts')} i WHERE i.tenant_id = $1 AND i.thread_id = $3 AND i.interrupt_id = d.interrupt_id)`,
    ids,
  );
  const { rows } = await client.query<AskedEffect>(
    `SELECT i.interrupt_id, i.operation_id, o.args_hash, i.origin_ns, i.origin_task_id FROM ${database.table('interrupts')} i
     JOIN ${database.table('operations')} o ON o.tenant_id = i.tenant_id AND o.operation_id = i.operation_id
     WHERE i.tenant_id = $1 AND i.thread_id = $2 AND i.status = 'pending' AND starts_with(i.interrupt_id, $3)`,
    [tenant, copy.threadId, prefix],
  );
  return rows;
}

/** Gives a copied question the id under which the copy's branch would ask it. */
export async function renameQuestion(
  client: pg.PoolClient,
  database: Database,
  tenant: string,
  threadId: string,
  { from, to }: { from: string; to: string },
): Promise<void> {
  await client.query(
    `UPDATE ${database.table('interrupts')} SET interrupt_id = $4 WHERE tenant_id = $1 AND thread_id = $2 AND interrupt_id = $3`,
    [tenant, threadId, from, to],
  );
}
