import type pg from 'pg';
import { InvalidInputError, VersionMismatchError } from '../contracts/errors.ts';
import { checkpointThreadId, graphRef } from '../contracts/ids.ts';
import { counts, namespaceParts } from '../contracts/namespaces.ts';
import { forkRequest, type ForkRequest } from '../contracts/runs.ts';
import type { Database } from '../postgres/database.ts';
import { lockThread, type LockedThread } from './locked-thread.ts';
import { absentCheckpoint } from './prunings.ts';
import { insertRun, refuseReservedConfigurable, type RecordedRun, type Waking } from './request-run.ts';

/**
 * Records a run that begins a new branch of the thread at one of its checkpoints, queued behind the thread's
 * other runs. What was there stays as it is.
 * @throws InvalidInputError | UnknownThreadError | ThreadDeletedError | UnknownCheckpointError | PrunedCheckpointError | VersionMismatchError
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
    const place = await placeOf(client, database, tenant, { threadId, checkpointId, thread });
    const run = await insertRun(client, database, {
      tenant,
      thread: threadId,
      kind: 'fork',
      actor: actor ?? 'user:unknown',
      config: given ?? place.config,
    });
    await client.query(
      `UPDATE ${database.table('runs')} SET fork_checkpoint_id = $3, fork_values = $4, fork_as_node = $5, effects = $6,
         fork_ns = $7, fork_ns_checkpoint_id = $8
       WHERE tenant_id = $1 AND run_id = $2`,
      [
        tenant,
        run,
        place.root,
        values === undefined ? null : JSON.stringify(values),
        asNode ?? null,
        effects ?? 'recorded',
        place.ns,
        place.ns === null ? null : checkpointId,
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

type ForkPlace = {
  root: string;
  /** Where the branch begins inside a subgraph; null for one that begins at the root checkpoint. */
  ns: string | null;
  /** The settings of the run that made the checkpoint. */
  config: unknown;
};

/** A branch that begins in a subgraph begins below the root checkpoint that the subgraph was called at. */
async function placeOf(
  client: pg.PoolClient,
  database: Database,
  tenant: string,
  { threadId, checkpointId, thread }: { threadId: string; checkpointId: string; thread: LockedThread },
): Promise<ForkPlace> {
  const { rows } = await client.query<{
    ns: string;
    graph_version: string | null;
    root: string | null;
    config: unknown;
  }>(
    `SELECT c.checkpoint_ns AS ns, c.metadata ->> 'graph_version' AS graph_version, r.config,
       (SELECT a.checkpoint_id FROM ${database.table('checkpoints')} a WHERE a.thread_id = c.thread_id
          AND a.checkpoint_ns = '' AND a.checkpoint_id = c.metadata -> 'parents' ->> '') AS root
     FROM ${database.table('checkpoints')} c
     LEFT JOIN ${database.table('runs')} r ON r.tenant_id = $1 AND r.run_id::text = c.metadata ->> 'run_id'
     WHERE c.thread_id = $2 AND c.checkpoint_id = $3
     ORDER BY c.checkpoint_ns <> '', c.metadata -> 'parents' ->> '' LIMIT 1`,
    [tenant, checkpointThreadId(tenant, threadId), checkpointId],
  );
  const [row] = rows;
  if (!row) throw await absentCheckpoint(client, database, tenant, threadId, checkpointId);
  requireSameVersion({ ...thread, thread_id: threadId }, checkpointId, row.graph_version);
  const config = row.config ?? {};
  if (row.ns === '') return { root: checkpointId, ns: null, config };
  const keeps = namespaceParts(row.ns).find((part) => part.taskId === undefined && !counts(part));
  const why =
    keeps !== undefined
      ? `the subgraph '${keeps.node}' keeps its state from run to run`
      : row.root === null
        ? 'it is not known at which checkpoint of the whole graph it was called'
        : undefined;
  if (row.root === null || why !== undefined)
    throw new InvalidInputError(
      `Checkpoint '${checkpointId}' is one of a subgraph, and no branch can begin there: ${why}. Fork at a checkpoint of the whole graph: 'perdure history ${threadId}' lists them.`,
      { thread_id: threadId, checkpoint_id: checkpointId, checkpoint_ns: row.ns },
    );
  return { root: row.root, ns: row.ns, config };
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
