import type pg from 'pg';
import { InvalidInputError, UnknownCheckpointError, VersionMismatchError } from '../contracts/errors.ts';
import { checkpointThreadId, graphRef } from '../contracts/ids.ts';
import { forkRequest, type ForkRequest } from '../contracts/runs.ts';
import type { Database } from '../postgres/database.ts';
import { lockThread, type LockedThread } from './locked-thread.ts';
import { insertRun, refuseReservedConfigurable, type RecordedRun, type Waking } from './request-run.ts';

/**
 * Records a run that begins a new branch of the thread at one of its root checkpoints, queued behind the thread's
 * other runs. What was there stays as it is.
 * @throws InvalidInputError | UnknownThreadError | ThreadDeletedError | UnknownCheckpointError | VersionMismatchError
 */
export async function requestFork(
  database: Database,
  tenant: string,
  threadId: string,
  request: ForkRequest,
): Promise<RecordedRun & Waking> {
  const parsed = forkRequest.safeParse(request);
  if (!parsed.success) {
    const issue = parsed.error.issues[0];
    throw new InvalidInputError(`${issue?.path.join('.') || 'request'}: ${issue?.message ?? 'is invalid'}`);
  }
  const { checkpoint_id: checkpointId, values, as_node: asNode, effects, config: given, actor } = parsed.data;
  refuseReservedConfigurable(given?.configurable);
  if (asNode !== undefined && values === undefined)
    throw new InvalidInputError(`as_node: names who changed the state, so values have to be given with it.`, {
      as_node: asNode,
    });
  return database.transaction(async (client) => {
    const thread = await lockThread(client, database, tenant, threadId);
    const config = given ?? (await configAt(client, database, tenant, { threadId, checkpointId, thread }));
    const run = await insertRun(client, database, {
      tenant,
      thread: threadId,
      kind: 'fork',
      actor: actor ?? 'user:unknown',
      config,
    });
    await client.query(
      `UPDATE ${database.table('runs')} SET fork_checkpoint_id = $3, fork_values = $4, fork_as_node = $5, effects = $6
       WHERE tenant_id = $1 AND run_id = $2`,
      [
        tenant,
        run,
        checkpointId,
        values === undefined ? null : JSON.stringify(values),
        asNode ?? null,
        effects ?? 'recorded',
      ],
    );
    return {
      run_id: run,
      thread_id: threadId,
      graph: thread.graph,
      version: thread.version,
      wakes: thread.unfinished_runs === 0,
    };
  });
}

/** The settings of the run that made the checkpoint: the branch goes on under them. */
async function configAt(
  client: pg.PoolClient,
  database: Database,
  tenant: string,
  { threadId, checkpointId, thread }: { threadId: string; checkpointId: string; thread: LockedThread },
): Promise<unknown> {
  const { rows } = await client.query<{ ns: string; graph_version: string | null; config: unknown }>(
    `SELECT c.checkpoint_ns AS ns, c.metadata ->> 'graph_version' AS graph_version, r.config FROM ${database.table('checkpoints')} c
     LEFT JOIN ${database.table('runs')} r ON r.tenant_id = $1 AND r.run_id::text = c.metadata ->> 'run_id'
     WHERE c.thread_id = $2 AND c.checkpoint_id = $3 ORDER BY c.checkpoint_ns LIMIT 1`,
    [tenant, checkpointThreadId(tenant, threadId), checkpointId],
  );
  const [row] = rows;
  if (!row) throw new UnknownCheckpointError(threadId, checkpointId);
  if (row.ns !== '')
    throw new InvalidInputError(
      `Checkpoint '${checkpointId}' is one of the subgraph ${row.ns}. Fork at a checkpoint of the whole graph: 'perdure history ${threadId}' lists them.`,
      { thread_id: threadId, checkpoint_id: checkpointId, checkpoint_ns: row.ns },
    );
  requireSameVersion({ ...thread, thread_id: threadId }, checkpointId, row.graph_version);
  return row.config ?? {};
}

/** @throws VersionMismatchError for a checkpoint from before the thread was migrated. */
export function requireSameVersion(
  thread: { thread_id: string; graph: string; version: string },
  checkpointId: string,
  graphVersion: string | null,
): void {
  const now = graphRef(thread.graph, thread.version);
  if (graphVersion === null || graphVersion === now) return;
  throw new VersionMismatchError(
    `Checkpoint '${checkpointId}' was written by ${graphVersion}, and thread '${thread.thread_id}' is under ${now} since it was migrated. Take a checkpoint of ${now}.`,
    { thread_id: thread.thread_id, checkpoint_id: checkpointId, graph_version: graphVersion },
  );
}
