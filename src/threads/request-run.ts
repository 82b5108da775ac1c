import { randomUUID } from 'node:crypto';
import type pg from 'pg';
import type { z } from 'zod';
import {
  InvalidInputError,
  ThreadBusyError,
  ThreadDeletedError,
  UnknownGraphError,
  VersionMismatchError,
} from '../contracts/errors.ts';
import { checkpointThreadId, graphRef } from '../contracts/ids.ts';
import { runRequest, type StoppedRuns, type RunKind, type RunRequest } from '../contracts/runs.ts';
import type { Database } from '../postgres/database.ts';
import { moveInputBehind, releaseHeld } from './held-runs.ts';
import { stopUnfinished, type Queryable } from './stop-runs.ts';

/** What of a recorded run its caller needs to wake the thread. */
export type RecordedRun = { run_id: string; thread_id: string; graph: string; version: string };

/** Behind an unfinished run another needs no signal: the attempt that ends the first one sees that more are there. */
export type Waking = { wakes: boolean };

/** A request that was found well-formed, with the ids of its thread and run. */
export type CheckedRequest = Omit<z.output<typeof runRequest>, 'thread_id'> & {
  thread_id: string;
  run_id: string;
};

/**
 * Records a run: the thread's row is made or locked, the strategy is decided by it, and the run is queued behind those
 * that are there. Nothing is run yet: see wake() of the client.
 * @throws InvalidInputError | UnknownGraphError | VersionMismatchError | ThreadBusyError | ThreadDeletedError
 */
export async function requestRun(
  database: Database,
  tenant: string,
  request: RunRequest,
): Promise<RecordedRun & Waking & { stopped?: StoppedRuns }> {
  const checked = checkRequest(request);
  if (checked.multitask_strategy === 'interrupt' || checked.multitask_strategy === 'rollback')
    return recordAndStop(database, tenant, checked, checked.multitask_strategy);
  return recordRun(database, database, tenant, checked);
}

/** How often a thread that is being made at the same moment is looked at again. */
const MAX_TRIES = 10;

/**
 * Records a run and stops those that are unfinished, in one transaction under the thread's row lock.
 */
async function recordAndStop(
  database: Database,
  tenant: string,
  request: CheckedRequest,
  strategy: 'interrupt' | 'rollback',
): Promise<RecordedRun & Waking & { stopped?: StoppedRuns }> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await database.transaction(async (client) => {
        const stopped = await stopUnfinished(client, database, tenant, request, strategy);
        const recorded = await recordRun(database, client, tenant, request);
        // Somebody made the thread after we had looked for it, and has a run on it.
        if (!recorded.wakes && stopped?.stopping_run == null) throw new MadeMeanwhile();
        return { ...recorded, ...(stopped ? { stopped } : {}) };
      });
    } catch (error) {
      const meanwhile = error instanceof MadeMeanwhile || isDuplicate(error);
      if (!meanwhile || tries >= MAX_TRIES) throw error;
    }
  }
}

class MadeMeanwhile extends Error {}

/** @throws InvalidInputError */
export function checkRequest(request: RunRequest): CheckedRequest {
  const parsed = runRequest.safeParse(request);
  if (!parsed.success) {
    const issue = parsed.error.issues[0];
    throw new InvalidInputError(`${issue?.path.join('.') || 'request'}: ${issue?.message ?? 'is invalid'}`);
  }
  refuseReservedConfigurable(parsed.data.config?.configurable);
  return { ...parsed.data, thread_id: parsed.data.thread_id ?? randomUUID(), run_id: randomUUID() };
}

/**
 * Queues the run behind those that are there, in one statement; where input is held that it lets go on, in a
 * transaction (its own, or that of `on`).
 * @throws UnknownGraphError | VersionMismatchError | ThreadBusyError | ThreadDeletedError
 */
export async function recordRun(
  database: Database,
  on: Queryable,
  tenant: string,
  request: CheckedRequest,
): Promise<RecordedRun & Waking> {
  const isPool = on === database;
  const ask: Queryable['query'] = (text, values) =>
    isPool ? database.prepared(text, values ?? []) : on.query(text, values);
  const recorded = await insertInput({ query: ask }, database, tenant, request).catch((error: unknown) => {
    // In a transaction nothing more can be asked after an error: its caller begins it again.
    if (isPool && isDuplicate(error)) return insertInput({ query: ask }, database, tenant, request);
    throw error;
  });
  if (recorded) return recorded;
  const why = await whyRefused(database, on, tenant, request);
  if (why) throw why;
  const underLock = (lock: Queryable) => recordAfterHeld(lock, database, tenant, request);
  return isPool ? database.transaction(underLock) : underLock(on);
}

/** New input goes on without the answer that held input waits for, and so does that, before it. */
async function recordAfterHeld(
  on: Queryable,
  database: Database,
  tenant: string,
  request: CheckedRequest,
): Promise<RecordedRun & Waking> {
  const rejects = request.multitask_strategy === 'reject';
  const released = rejects ? 0 : await releaseHeld(on, database, tenant, request.thread_id);
  const recorded = await insertInput(on, database, tenant, request);
  if (recorded) return { ...recorded, wakes: recorded.wakes || released > 0 };
  const why = await whyRefused(database, on, tenant, request);
  throw why ?? new Error(`thread '${request.thread_id}' takes no run, and nothing says why`);
}

/** Undefined when the thread, or the graph's versions, are not such as the request wants. */
async function insertInput(
  on: Queryable,
  database: Database,
  tenant: string,
  request: CheckedRequest,
): Promise<(RecordedRun & Waking) | undefined> {
  const { graph, version, thread_id: thread, run_id: run, multitask_strategy: strategy } = request;
  const { rows } = await on.query<{ version: string; unfinished: number }>(
    `WITH newest AS (
       SELECT version FROM ${database.table('graph_versions')}
       WHERE tenant_id = $1 AND graph = $3 AND ($4::text IS NULL OR version = $4)
       ORDER BY registered_at DESC, version DESC LIMIT 1
     ), t AS (
       INSERT INTO ${database.table('threads')} AS t
         (tenant_id, thread_id, checkpoint_thread_id, graph, version, lineage_root, status, unfinished_runs)
       SELECT $1, $2, $5, $3, newest.version, $2, 'busy', 1 FROM newest
       ON CONFLICT (tenant_id, thread_id) DO UPDATE
         SET status = 'busy', unfinished_runs = t.unfinished_runs + 1, updated_at = now()
         WHERE t.deleted_at IS NULL AND t.graph = $3 AND ($4::text IS NULL OR t.version = $4)
           AND CASE WHEN $6 = 'reject' THEN t.unfinished_runs + t.held_runs = 0
                    ELSE t.unfinished_runs > 0 OR t.held_runs = 0 END
       RETURNING t.version, t.unfinished_runs
     )
     INSERT INTO ${database.table('runs')} (tenant_id, run_id, thread_id, kind, input, config, actor)
     SELECT $1, $7, $2, 'input', $8, $9, $10 FROM t
     RETURNING (SELECT version FROM t), (SELECT unfinished_runs FROM t) AS unfinished`,
    [
      tenant,
      thread,
      graph,
      version ?? null,
      checkpointThreadId(tenant, thread),
      strategy ?? 'enqueue',
      run,
      JSON.stringify(request.input),
      JSON.stringify(request.config ?? {}),
      request.actor ?? 'user:unknown',
    ],
  );
  const row = rows[0];
  return row && { run_id: run, thread_id: thread, graph, version: row.version, wakes: row.unfinished === 1 };
}

/**
 * Of two who make the same thread at the same moment, the second may meet the first at `checkpoint_thread_id`, which
 * ON CONFLICT does not watch; by then the first one's row is there.
 */
function isDuplicate(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === '23505';
}

/** @throws InvalidInputError */
export function refuseReservedConfigurable(configurable: Record<string, unknown> | undefined): void {
  for (const key of Object.keys(configurable ?? {}))
    if (key === 'thread_id' || key.startsWith('checkpoint') || key.startsWith('__pregel'))
      throw new InvalidInputError(`config.configurable.${key} is set by the runtime; leave it out.`, { key });
}

/** Undefined when nothing stands against it now: something that did has ended, or it is held input. */
async function whyRefused(
  database: Database,
  on: Queryable,
  tenant: string,
  { thread_id: thread, graph, version, multitask_strategy: strategy }: CheckedRequest,
): Promise<Error | undefined> {
  const { rows } = await on.query<{
    graph: string;
    version: string;
    deleted: boolean;
    busy_with: string | null;
  }>(
    `SELECT graph, version, deleted_at IS NOT NULL AS deleted,
       (SELECT run_id FROM ${database.table('runs')} r WHERE r.tenant_id = t.tenant_id AND r.thread_id = t.thread_id
          AND r.status IN ('pending', 'running') ORDER BY sequence LIMIT 1) AS busy_with
     FROM ${database.table('threads')} t WHERE tenant_id = $1 AND thread_id = $2`,
    [tenant, thread],
  );
  const existing = rows[0];
  if (existing?.deleted) return new ThreadDeletedError(thread);
  if (existing && (existing.graph !== graph || (version !== undefined && existing.version !== version)))
    return new VersionMismatchError(
      `Thread '${thread}' runs under ${graphRef(existing.graph, existing.version)}, not ${version === undefined ? graph : graphRef(graph, version)}.`,
      { thread_id: thread, graph: existing.graph, version: existing.version },
    );
  const known = await knownVersions(database, tenant, graph);
  if (version === undefined ? known.length === 0 : !known.includes(version))
    return new UnknownGraphError(
      known.length === 0
        ? `No graph '${graph}' is known. Name it in langgraph.json; 'perdure doctor' lists those that are.`
        : `Graph '${graph}' has no version '${version}'; known: ${known.join(', ')}.`,
      { graph, known },
    );
  if (strategy === 'reject' && existing && existing.busy_with !== null)
    return new ThreadBusyError(thread, existing.busy_with);
  return undefined;
}

async function knownVersions(database: Database, tenant: string, graph: string): Promise<string[]> {
  const { rows } = await database.query<{ version: string }>(
    `SELECT version FROM ${database.table('graph_versions')} WHERE tenant_id = $1 AND graph = $2 ORDER BY registered_at`,
    [tenant, graph],
  );
  return rows.map((row) => row.version);
}

/** Queues a run on a thread whose row the transaction has locked. */
export async function insertRun(
  client: pg.PoolClient,
  database: Database,
  run: { tenant: string; thread: string; kind: RunKind; actor: string; config: unknown },
): Promise<string> {
  const id = randomUUID();
  await client.query(
    `INSERT INTO ${database.table('runs')} (tenant_id, run_id, thread_id, kind, config, actor) VALUES ($1, $2, $3, $4, $5, $6)`,
    [run.tenant, id, run.thread, run.kind, JSON.stringify(run.config), run.actor],
  );
  const { rows } = await client.query<{ holds: boolean; next: boolean }>(
    `UPDATE ${database.table('threads')} SET status = 'busy', unfinished_runs = unfinished_runs + 1, updated_at = now()
     WHERE tenant_id = $1 AND thread_id = $2 RETURNING held_runs > 0 AS holds, unfinished_runs = 1 AS next`,
    [run.tenant, run.thread],
  );
  // A fork waits its turn behind what is under way, and so behind what is released then.
  if (rows[0]?.holds && (rows[0].next || run.kind !== 'fork'))
    await moveInputBehind(client, database, run.tenant, run.thread);
  return id;
}
