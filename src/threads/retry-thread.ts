import { randomUUID } from 'node:crypto';
import type pg from 'pg';
import { NothingToRetryError } from '../contracts/errors.ts';
import type { RunKind } from '../contracts/runs.ts';
import type { Database } from '../postgres/database.ts';
import { moveInputBehind } from './held-runs.ts';
import { lockThread, type LockedThread } from './locked-thread.ts';
import type { RecordedRun } from './request-run.ts';

export type Retried = RecordedRun & {
  /** True where the run was about to be tried again by itself, and now is at once. */
  hastened: boolean;
};

type FailedRun = { run_id: string; kind: RunKind; base_checkpoint_id: string | null };

/**
 * Goes on with a thread whose newest run failed: from its last checkpoint, or, where that run never got to store one,
 * by the same request again. A run that waits for its next attempt is tried at once.
 * @throws UnknownThreadError | ThreadDeletedError | NothingToRetryError
 */
export async function retryThread(
  database: Database,
  tenant: string,
  threadId: string,
  actor: string,
): Promise<Retried> {
  return database.transaction(async (client) => {
    const thread = await lockThread(client, database, tenant, threadId);
    const named = { thread_id: threadId, graph: thread.graph, version: thread.version };
    const waiting = await hasten(client, database, tenant, threadId);
    if (waiting !== undefined) return { ...named, run_id: waiting, hastened: true };
    if (thread.status !== 'error') throw nothingToRetry(threadId, thread);
    const { rows } = await client.query<FailedRun>(
      `SELECT run_id, kind, base_checkpoint_id FROM ${database.table('runs')}
       WHERE tenant_id = $1 AND thread_id = $2 AND status = 'error' ORDER BY sequence DESC LIMIT 1`,
      [tenant, threadId],
    );
    const failed = rows[0];
    if (failed === undefined) throw nothingToRetry(threadId, thread);
    return {
      ...named,
      run_id: await again(client, database, { tenant, threadId, actor, thread, failed }),
      hastened: false,
    };
  });
}

async function hasten(
  client: pg.PoolClient,
  database: Database,
  tenant: string,
  threadId: string,
): Promise<string | undefined> {
  const { rows } = await client.query<{ run_id: string }>(
    `UPDATE ${database.table('runs')} SET retry_at = now()
     WHERE tenant_id = $1 AND thread_id = $2 AND status = 'running' AND retry_at IS NOT NULL
       AND cancel_requested_at IS NULL RETURNING run_id`,
    [tenant, threadId],
  );
  return rows[0]?.run_id;
}

/** What the failed run asked for was taken up once a checkpoint of it is there; before, it has to be asked again. */
async function again(
  client: pg.PoolClient,
  database: Database,
  {
    tenant,
    threadId,
    actor,
    thread,
    failed,
  }: { tenant: string; threadId: string; actor: string; thread: LockedThread; failed: FailedRun },
): Promise<string> {
  const begun = failed.base_checkpoint_id !== thread.head_checkpoint_id;
  const kind = begun || failed.kind === 'resume' ? 'continue' : failed.kind;
  const id = randomUUID();
  await client.query(
    `INSERT INTO ${database.table('runs')} (tenant_id, run_id, thread_id, kind, input, config, actor,
       fork_checkpoint_id, fork_values, fork_as_node, fork_ns, fork_ns_checkpoint_id, effects)
     SELECT tenant_id, $4, thread_id, $5, CASE WHEN $5 = 'input' THEN input END, config, $6,
       CASE WHEN $5 = 'fork' THEN fork_checkpoint_id END, CASE WHEN $5 = 'fork' THEN fork_values END,
       CASE WHEN $5 = 'fork' THEN fork_as_node END, CASE WHEN $5 = 'fork' THEN fork_ns END,
       CASE WHEN $5 = 'fork' THEN fork_ns_checkpoint_id END, effects
     FROM ${database.table('runs')} WHERE tenant_id = $1 AND thread_id = $2 AND run_id = $3`,
    [tenant, threadId, failed.run_id, id, kind, actor],
  );
  const { rows } = await client.query<{ holds: boolean }>(
    `UPDATE ${database.table('threads')} SET status = 'busy', unfinished_runs = unfinished_runs + 1, updated_at = now()
     WHERE tenant_id = $1 AND thread_id = $2 RETURNING held_runs > 0 AS holds`,
    [tenant, threadId],
  );
  if (rows[0]?.holds) await moveInputBehind(client, database, tenant, threadId);
  return id;
}

function nothingToRetry(threadId: string, { status }: LockedThread): NothingToRetryError {
  const why = {
    idle: 'its newest run did not fail',
    busy: 'a run is under way',
    interrupted: `it waits for a person; 'perdure thread ${threadId}' shows for what`,
    error: 'no failed run is on record',
  };
  return new NothingToRetryError(threadId, status, why[status]);
}
