import type { CheckpointTuple } from '@langchain/langgraph-checkpoint';
import { copyNamespaces, renumber, type NamespaceCopy } from '../checkpoint/copy-checkpoints.ts';
import type { BoundSaver, PerdureSaver } from '../checkpoint/saver.ts';
import { PerdureError, StaleFenceError } from '../contracts/errors.ts';
import { namespaceParts } from '../contracts/namespaces.ts';
import { originOf, taskIdOf } from '../operations/task-place.ts';
import type { Database } from '../postgres/database.ts';
import { faultPoint } from '../telemetry/fault-points.ts';
import type { ClaimedRun } from '../threads/segment.ts';
import type { CompiledGraph } from './define-graph.ts';
import { beginBranch } from './fork.ts';
import { nextNodesOf } from './next-nodes.ts';
import { plannedTasks } from './superstep.ts';

/** A fork that begins inside a subgraph. */
export type SubgraphFork = {
  database: Database;
  /** The saver that reads: what the attempt knows of where it stands is not to change. */
  reader: PerdureSaver;
  /** The run's graph, with the attempt's saver. */
  graph: CompiledGraph;
  run: ClaimedRun;
  threadId: string;
};

export function subgraphFork(fork: SubgraphFork): SubgraphFork | undefined {
  return fork.run.kind === 'fork' && fork.run.fork_ns !== null ? fork : undefined;
}

/** Begins the run's branch. @returns what tells LangGraph where to go on, if not at the newest checkpoint. */
export async function beginAt(
  graph: CompiledGraph,
  saver: BoundSaver,
  run: ClaimedRun,
  point: string,
  inside: SubgraphFork | undefined,
): Promise<{ checkpoint_id?: string }> {
  if (run.kind !== 'fork') return { checkpoint_id: point };
  if (inside) await checkSubgraphFork(inside);
  const begun = await beginBranch(graph, saver, run, point);
  if (!inside) return { checkpoint_id: begun };
  faultPoint('fork:begun');
  await beginInSubgraph(inside);
  return {};
}

/** @throws PerdureError SUBGRAPH_FORK_UNFIT where no branch can begin there; asked before the branch is begun. */
async function checkSubgraphFork(fork: SubgraphFork): Promise<void> {
  const { run, graph } = fork;
  await copiesBelow(fork, run.fork_checkpoint_id ?? '');
  if (run.fork_values !== null) await subgraphAt(graph, run.fork_ns ?? '', fork);
}

/**
 * Gives the subgraph the state of the checkpoint that the fork begins at, below the root checkpoint that begins the
 * branch: its task has another id there, and so another namespace. Then makes the change. Done in several steps, of
 * which each is left out where an earlier attempt has done it.
 */
export async function beginInSubgraph(fork: SubgraphFork): Promise<void> {
  const { reader, run } = fork;
  const root = await reader.getTuple(at(run, '', undefined));
  // Past its first root checkpoint the run is past the subgraph, or in it under its own checkpoints.
  if (!root || !beginsWith(root, run)) return;
  const copies = await copiesBelow(fork, root.checkpoint.id);
  const last = copies.at(-1);
  if (!last) throw unfit(fork, 'its namespace is empty');
  const stored = await copyNamespaces(fork.database, run.checkpoint_thread_id, run.fence, copies);
  if (!stored) throw new StaleFenceError(fork.threadId, { fence: run.fence, run_id: run.run_id });
  if (run.fork_values === null) return;
  const tuple = await reader.getTuple(at(run, last.to, undefined));
  if (!tuple || tuple.checkpoint.id !== last.checkpointId) return;
  const made = await fork.graph.updateState(
    at(run, last.to, last.checkpointId),
    run.fork_values,
    run.fork_as_node ?? undefined,
  );
  const subgraph = await subgraphAt(fork.graph, last.to, fork);
  // In the name of a node that was next, the change stands for its run.
  if (run.fork_as_node !== null && nextNodesOf(subgraph)(tuple.checkpoint).includes(run.fork_as_node)) return;
  await renumber(fork.database, run.checkpoint_thread_id, run.fence, {
    ns: last.to,
    checkpointId: String(made.configurable?.['checkpoint_id']),
    step: tuple.metadata?.step ?? 0,
  });
}

function beginsWith({ parentConfig, metadata }: CheckpointTuple, run: ClaimedRun): boolean {
  const parent: unknown = parentConfig?.configurable?.['checkpoint_id'];
  const madeBy: unknown = metadata && 'run_id' in metadata ? metadata.run_id : undefined;
  return parent === run.fork_checkpoint_id && madeBy === run.run_id;
}

/** What has to be copied for each subgraph on the way, from the outermost, for a branch that begins at `rootId`. */
async function copiesBelow(fork: SubgraphFork, rootId: string): Promise<NamespaceCopy[]> {
  const { reader, run } = fork;
  const ns = run.fork_ns ?? '';
  const target = await reader.getTuple(at(run, ns, run.fork_ns_checkpoint_id ?? ''));
  if (!target) throw unfit(fork, 'its checkpoint is gone');
  const stood: Record<string, string> = {
    ...target.metadata?.parents,
    [ns]: target.checkpoint.id,
  };
  const parts = ns.split('|');
  const copies: NamespaceCopy[] = [];
  const parents: Record<string, string> = { '': rootId };
  let from = '';
  let to = '';
  for (const [index, { node, taskId }] of namespaceParts(ns).entries()) {
    const id =
      taskId === undefined ? undefined : await sameTask(fork, { node, taskId, from, to, stood, rootId });
    from = parts.slice(0, index + 1).join('|');
    const part = id === undefined ? node : `${node}:${id}`;
    to = to === '' ? part : `${to}|${part}`;
    const checkpointId = stood[from];
    if (checkpointId === undefined) continue;
    copies.push({ from, to, checkpointId, parents: { ...parents } });
    parents[to] = checkpointId;
  }
  return copies;
}

type TaskInGraph = {
  node: string;
  taskId: string;
  /** The graph's namespace, and the one in the branch. */
  from: string;
  to: string;
  /** At which checkpoint each graph stood, by namespace. */
  stood: Readonly<Record<string, string>>;
  rootId: string;
};

/** The id that a task has in the branch. */
async function sameTask(fork: SubgraphFork, task: TaskInGraph): Promise<string> {
  const { reader, run, graph } = fork;
  const { node: name, taskId, from, to, stood } = task;
  const checkpointId = stood[from];
  const tuple = checkpointId && (await reader.getTuple(at(run, from, checkpointId)));
  if (!tuple) throw unfit(fork, 'a graph around it stores no checkpoints');
  if (from === '') {
    const index = (await plannedTasks(graph, tuple, reader)).findIndex(({ id }) => id === taskId);
    const begun = await reader.getTuple(at(run, '', task.rootId));
    const planned = begun && (await plannedTasks(graph, begun, reader))[index];
    if (planned?.name !== name) throw unfit(fork, `node '${name}' would not run there`);
    return planned.id;
  }
  const planning = { name, step: (tuple.metadata?.step ?? 0) + 1, checkpointId: tuple.checkpoint.id };
  const origin = originOf({ ...planning, graphNs: from }, taskId);
  if (origin === undefined) throw unfit(fork, `the place of node '${name}' in its superstep is not known`);
  return taskIdOf({ ...planning, graphNs: to }, origin);
}

/** @throws PerdureError where LangGraph does not know the subgraph, since it is called inside a node. */
async function subgraphAt(graph: CompiledGraph, ns: string, fork: SubgraphFork): Promise<CompiledGraph> {
  const name = namespaceParts(ns)
    .map(({ node }) => node)
    .join('|');
  for await (const [, found] of graph.getSubgraphsAsync(name, true)) return found;
  throw unfit(
    fork,
    `its state can't be changed, since '${name}' is called inside a node and no node by itself`,
  );
}

function unfit({ run, threadId }: SubgraphFork, why: string): PerdureError {
  return new PerdureError(
    'SUBGRAPH_FORK_UNFIT',
    `No branch can begin at checkpoint '${run.fork_ns_checkpoint_id}' of the subgraph ${run.fork_ns}: ${why}. Fork at a checkpoint of the whole graph: 'perdure history ${threadId}' lists them.`,
    { thread_id: threadId, checkpoint_id: run.fork_ns_checkpoint_id, checkpoint_ns: run.fork_ns },
  );
}

function at(run: ClaimedRun, ns: string, checkpointId: string | undefined) {
  return {
    configurable: {
      ...run.config.configurable,
      thread_id: run.checkpoint_thread_id,
      checkpoint_ns: ns,
      ...(checkpointId === undefined ? {} : { checkpoint_id: checkpointId }),
    },
  };
}
