import type { Branch } from '../operations/run-context.ts';
import type { BoundSaver, PerdureSaver } from '../checkpoint/saver.ts';
import { branchId } from '../contracts/ids.ts';
import type { ClaimedRun } from '../threads/segment.ts';
import type { CompiledGraph } from './define-graph.ts';
import { nextNodesOf } from './next-nodes.ts';

/** Whether the run's earlier attempts, or this one, have stored a checkpoint. */
export function hasMoved(run: ClaimedRun, head: string | null = run.head_checkpoint_id): boolean {
  return head !== run.base_checkpoint_id;
}

/**
 * The checkpoint that the attempt has to begin at instead of the head: that of a fork, or the one from before the runs
 * that were rolled back (null: before the first one). Undefined once the run has a checkpoint of its own.
 */
export function startPoint(run: ClaimedRun): string | null | undefined {
  if (!beginsBranch(run) || hasMoved(run)) return undefined;
  return run.fork_checkpoint_id;
}

/** Whether the run begins a branch: a fork does, and input that follows a rollback. */
export function beginsBranch(run: ClaimedRun): boolean {
  return run.kind === 'fork' || run.rewound;
}

/** The branch that the run works on: the one that it begins, or the thread's own. Undefined where nobody forked. */
export function branchOf(
  run: Pick<ClaimedRun, 'run_id' | 'kind' | 'effects' | 'rewound' | 'branch_id' | 'branch_effects'>,
): Branch | undefined {
  if (run.kind === 'fork') return { id: branchId(run.run_id), effects: run.effects };
  if (run.rewound) return { id: branchId(run.run_id), effects: run.branch_effects ?? 'live' };
  return run.branch_id === null
    ? undefined
    : { id: run.branch_id, effects: run.branch_effects ?? 'recorded' };
}

/**
 * How many steps on the way to the branch's checkpoints are forks' own. LangGraph gives the checkpoint that a fork
 * begins with a step, though none of the graph's nodes ran: without it the nodes that run again have the supersteps
 * they had. A change in the name of a node that was next stands for the node's run, so that the step is the graph's.
 */
export async function forkSteps(saver: PerdureSaver, graph: CompiledGraph, run: ClaimedRun): Promise<number> {
  const point = startPoint(run);
  if (point === undefined) return run.head_fork_steps;
  // Input is a step of the graph's own, also where it begins a branch.
  if (point === null || run.kind !== 'fork') return run.base_fork_steps;
  if (run.fork_as_node === null || run.fork_ns !== null) return run.base_fork_steps + 1;
  const tuple = await saver.getTuple(at(run, point));
  const replacesNext = tuple !== undefined && nextNodesOf(graph)(tuple.checkpoint).includes(run.fork_as_node);
  return run.base_fork_steps + (replacesNext ? 0 : 1);
}

/**
 * Begins the branch, and gives the checkpoint that LangGraph is to go on from. Where nothing is changed and the
 * thread has moved past the point, that is the point itself: LangGraph stores a `fork` of it when it goes on.
 */
export async function beginBranch(
  graph: CompiledGraph,
  saver: BoundSaver,
  run: ClaimedRun,
  point: string,
): Promise<string> {
  // Inside of a subgraph the whole graph is as it was, and the change is the subgraph's.
  const inside = run.fork_ns !== null;
  const changed = run.fork_values !== null && !inside;
  if (!changed && !inside && point !== saver.head) return point;
  const made = changed
    ? await graph.updateState(at(run, point), run.fork_values, run.fork_as_node ?? undefined)
    : await graph.updateState(at(run, point), null);
  return String(made.configurable?.['checkpoint_id']);
}

function at(run: ClaimedRun, checkpointId: string) {
  return {
    configurable: {
      ...run.config.configurable,
      thread_id: run.checkpoint_thread_id,
      checkpoint_ns: '',
      checkpoint_id: checkpointId,
    },
  };
}
