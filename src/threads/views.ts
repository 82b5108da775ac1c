import { UnknownRunError, UnknownThreadError } from '../contracts/errors.ts';
import { checkpointThreadId } from '../contracts/ids.ts';
import type { JsonValue } from '../contracts/json.ts';
import type { InterruptView, RunView, ThreadView } from '../contracts/runs.ts';
import type { Database } from '../postgres/database.ts';
import { absentCheckpoint } from './prunings.ts';
import { QUESTION_DIGEST } from './question-digest.ts';

/** Postgres' own ISO 8601 in UTC, with milliseconds. */
const iso = (column: string) => `to_char(${column} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;

const RUN_COLUMNS = `r.run_id, r.thread_id, t.graph, coalesce(r.version, t.version) AS version, r.kind, r.status, r.error, r.attempts,
  r.held, r.stopped_by,
  CASE WHEN r.retry_at IS NOT NULL AND r.status = 'running'
    THEN json_build_object('retry_at', ${iso('r.retry_at')}, 'error', r.retry -> 'error') END AS retry,
  ${iso('r.created_at')} AS created_at, ${iso('r.started_at')} AS started_at, ${iso('r.finished_at')} AS finished_at`;

const INTERRUPT_COLUMNS = `interrupt_id AS id, thread_id, run_id, kind, node, value, ${QUESTION_DIGEST} AS digest, status, answer, answered_by, answered_from,
  ${iso('answered_at')} AS answered_at, ${iso('created_at')} AS created_at, ${iso('due_at')} AS due_at, on_due, escalations`;

/** A run with what is needed to show its end. */
export type RunRow = RunView & {
  checkpoint_id: string | null;
  next: string[] | null;
  /** Of runs that an earlier version of perdure recorded; later ones keep theirs with the checkpoint. */
  output: JsonValue;
  checkpoint_thread_id: string;
  output_channels: JsonValue;
};

/** @throws UnknownRunError */
export async function readRun(database: Database, tenant: string, runId: string): Promise<RunRow> {
  const { rows } = await database.prepared<RunRow>(
    `SELECT ${RUN_COLUMNS}, r.checkpoint_id, r.next, r.output, t.checkpoint_thread_id, g.output_channels
     FROM ${database.table('runs')} r
     JOIN ${database.table('threads')} t USING (tenant_id, thread_id)
     LEFT JOIN ${database.table('graph_versions')} g
       ON g.tenant_id = t.tenant_id AND g.graph = t.graph AND g.version = coalesce(r.version, t.version)
     WHERE r.tenant_id = $1 AND r.run_id = $2`,
    [tenant, runId],
  );
  const row = rows[0];
  if (!row) throw new UnknownRunError(runId);
  return row;
}

export async function listRuns(
  database: Database,
  tenant: string,
  threadId: string,
  limit: number,
): Promise<RunView[]> {
  const { rows } = await database.query<RunView>(
    `SELECT ${RUN_COLUMNS} FROM ${database.table('runs')} r JOIN ${database.table('threads')} t USING (tenant_id, thread_id)
     WHERE r.tenant_id = $1 AND r.thread_id = $2 ORDER BY r.sequence DESC LIMIT $3`,
    [tenant, threadId, limit],
  );
  return rows;
}

/** A thread's columns; `status` tells a thread that only sleeps from one that waits for a person. */
const THREADS = (database: Database) => `(
  SELECT t.tenant_id, t.thread_id, t.graph, t.version, t.updated_at AS changed_at, ${iso('t.created_at')} AS created_at,
    ${iso('t.updated_at')} AS updated_at, t.unfinished_runs, t.lineage_root, t.copied_from, t.copied_at,
    t.branch_effects AS effects,
    (SELECT coalesce(r.fork_ns_checkpoint_id, r.fork_checkpoint_id) FROM ${database.table('runs')} r
     WHERE r.tenant_id = t.tenant_id AND r.thread_id = t.thread_id AND r.kind = 'fork'
       AND left(replace(r.run_id::text, '-', ''), 12) = t.branch_id LIMIT 1) AS forked_at,
    p.pending_interrupts, ${iso('p.sleeps_until')} AS sleeps_until,
    CASE WHEN t.status = 'interrupted' AND p.sleeps_until IS NOT NULL AND p.pending_interrupts = 0
         THEN 'sleeping' ELSE t.status END AS status
  FROM ${database.table('threads')} t
  CROSS JOIN LATERAL (
    SELECT (count(*) FILTER (WHERE kind <> 'timer'))::int AS pending_interrupts,
      min(due_at) FILTER (WHERE kind = 'timer') AS sleeps_until
    FROM ${database.table('interrupts')} i
    WHERE i.tenant_id = t.tenant_id AND i.thread_id = t.thread_id AND i.status = 'pending') p
  WHERE t.tenant_id = $1 AND t.deleted_at IS NULL)`;

const THREAD_COLUMNS = `thread_id, graph, version, status, created_at, updated_at, unfinished_runs, pending_interrupts, sleeps_until,
  lineage_root, copied_from, copied_at, forked_at, effects`;

/** @throws UnknownThreadError also for a deleted one */
export async function readThread(database: Database, tenant: string, threadId: string): Promise<ThreadView> {
  const { rows } = await database.query<ThreadView>(
    `SELECT ${THREAD_COLUMNS} FROM ${THREADS(database)} t WHERE thread_id = $2`,
    [tenant, threadId],
  );
  const row = rows[0];
  if (!row) throw new UnknownThreadError(threadId);
  return row;
}

export type ThreadFilter = { status?: string; graph?: string; limit: number };

/** Newest change first. */
export async function listThreads(
  database: Database,
  tenant: string,
  filter: ThreadFilter,
): Promise<ThreadView[]> {
  const { rows } = await database.query<ThreadView>(
    `SELECT ${THREAD_COLUMNS} FROM ${THREADS(database)} t
     WHERE ($2::text IS NULL OR status = $2) AND ($3::text IS NULL OR graph = $3)
     ORDER BY changed_at DESC, thread_id LIMIT $4`,
    [tenant, filter.status ?? null, filter.graph ?? null, filter.limit],
  );
  return rows;
}

export type InterruptFilter = {
  thread_id?: string;
  run_id?: string;
  status?: InterruptView['status'];
  /** Leaves out what no person has to answer. */
  for_people?: boolean;
  limit: number;
};

/** In the order in which they were asked. */
export async function listInterrupts(
  database: Database,
  tenant: string,
  filter: InterruptFilter,
): Promise<InterruptView[]> {
  const { rows } = await database.query<InterruptView>(
    `SELECT ${INTERRUPT_COLUMNS} FROM ${database.table('interrupts')}
     WHERE tenant_id = $1 AND ($2::text IS NULL OR thread_id = $2) AND ($3::uuid IS NULL OR run_id = $3)
       AND ($4::text IS NULL OR status = $4) AND (kind <> 'timer' OR NOT $5) ORDER BY sequence LIMIT $6`,
    [
      tenant,
      filter.thread_id ?? null,
      filter.run_id ?? null,
      filter.status ?? null,
      filter.for_people ?? false,
      filter.limit,
    ],
  );
  return rows;
}

/** The root checkpoint that the thread stands at; null on one that has none, or was rolled back to before its first. */
export async function readHead(database: Database, tenant: string, threadId: string): Promise<string | null> {
  const { rows } = await database.query<{ head: string | null }>(
    `SELECT CASE WHEN rewound THEN rewound_to ELSE head_checkpoint_id END AS head FROM ${database.table('threads')} WHERE tenant_id = $1 AND thread_id = $2`,
    [tenant, threadId],
  );
  return rows[0]?.head ?? null;
}

/** @throws UnknownCheckpointError | PrunedCheckpointError unless it is one of the thread's checkpoints. */
export async function requireCheckpoint(
  database: Database,
  tenant: string,
  threadId: string,
  checkpointId: string,
): Promise<void> {
  const { rowCount } = await database.query(
    `SELECT FROM ${database.table('checkpoints')} WHERE thread_id = $1 AND checkpoint_id = $2`,
    [checkpointThreadId(tenant, threadId), checkpointId],
  );
  if (rowCount === 0) throw await absentCheckpoint(database, database, tenant, threadId, checkpointId);
}

export type ThreadKey = { tenant_id: string; thread_id: string };

/** Those of the threads that are not on record, not even as deleted. */
export async function unknownThreads(
  database: Database,
  threads: readonly ThreadKey[],
): Promise<ThreadKey[]> {
  const { rows } = await database.query<ThreadKey>(
    `SELECT k.tenant_id, k.thread_id FROM json_to_recordset($1::json) AS k(tenant_id text, thread_id text)
     WHERE NOT EXISTS (SELECT FROM ${database.table('threads')} t
       WHERE t.tenant_id = k.tenant_id AND t.thread_id = k.thread_id)`,
    [JSON.stringify(threads)],
  );
  return rows;
}
