import type { CheckpointPendingWrite, CheckpointTuple } from '@langchain/langgraph-checkpoint';
import { interruptIds, isResult } from '../checkpoint/progress.ts';
import { nodeTaskQueue } from '../contracts/ids.ts';
import type { DueTasks, TaskOptions } from '../contracts/thread-workflow.ts';
import { answeredOf } from '../threads/task-attempts.ts';
import type { Database } from '../postgres/database.ts';
import { partsOf } from './define-graph.ts';
import type { LoadedGraph } from './load-graphs.ts';
import type { PlannedTask } from './superstep.ts';

/** Tasks that one answer hands out. The workflow's history can be cut before the next. */
export const PAGE = 200;

/** Tasks of one node, and of all nodes, that run at once unless policies say otherwise. */
export const DEFAULT_CONCURRENCY = 50;

/** Where the tasks of a superstep stand. */
export type Standing = {
  /** To be run: without a result, and not waiting for an answer. */
  due: PlannedTask[];
  /** Waiting for an answer. */
  waiting: PlannedTask[];
};

/** @param writes the pending writes of the checkpoint. */
export async function standingOf(
  database: Database,
  tenant: string,
  threadId: string,
  graph: LoadedGraph,
  planned: readonly PlannedTask[],
  writes: readonly CheckpointPendingWrite[],
): Promise<Standing> {
  const byTask = new Map<string, CheckpointPendingWrite[]>();
  for (const write of writes) {
    const others = byTask.get(write[0]);
    if (others) others.push(write);
    else byTask.set(write[0], [write]);
  }
  const unfinished = planned.filter((task) => !hasEnded(graph, task, byTask.get(task.id) ?? []));
  const questions = new Map(unfinished.map((task) => [task.id, questionsOf(byTask.get(task.id) ?? [])]));
  const answered = await answeredOf(database, tenant, threadId, [...questions.values()].flat());
  const waits = ({ id }: PlannedTask) => {
    const asked = questions.get(id) ?? [];
    return asked.length > 0 && !asked.some((question) => answered.has(question));
  };
  return { due: unfinished.filter((task) => !waits(task)), waiting: unfinished.filter(waits) };
}

/** The interrupts that a task stopped at. */
export function questionsOf(writes: readonly CheckpointPendingWrite[]): string[] {
  return writes.flatMap(([, channel, value]) => (channel === '__interrupt__' ? interruptIds(value) : []));
}

/** Whether a task has its result, or failed and has a node that handles it, which the segment runs. */
export function hasEnded(
  graph: LoadedGraph,
  task: Pick<PlannedTask, 'name'>,
  writes: readonly CheckpointPendingWrite[],
): boolean {
  if (writes.some(([taskId, channel]) => isResult(taskId, channel))) return true;
  return (
    hasErrorHandler(graph, task.name) && writes.some(([, channel]) => channel === '__error_source_node__')
  );
}

export function hasErrorHandler(graph: LoadedGraph, node: string): boolean {
  return partsOf(graph.graph).nodes[node]?.errorHandlerNode !== undefined;
}

/** What the workflow is told of tasks that are to run. */
export function handOut(
  schema: string,
  graph: LoadedGraph,
  standing: { due: readonly PlannedTask[]; unfinished: number },
  at: { checkpointId: string; fence: number; maxConcurrency: number | undefined },
): DueTasks {
  const page = standing.due.slice(0, PAGE);
  const first = page[0];
  const policy = first && graph.activityNodes.policy(first.name);
  return {
    checkpoint_id: at.checkpointId,
    fence: at.fence,
    tasks: page.map(({ id, name, tool }) => ({
      task_id: id,
      node: name,
      ...(tool === undefined ? {} : { tool }),
    })),
    options: Object.fromEntries(page.map(({ name }) => [name, taskOptions(schema, graph, name)])),
    concurrency: Math.min(at.maxConcurrency ?? Number.POSITIVE_INFINITY, PAGE),
    alone: standing.unfinished === 1 && page.length === 1 && policy?.taskQueue === undefined,
  };
}

/** How long Temporal waits beyond a task's own time before it takes its worker for lost, in ms. */
const BACKSTOP = 30_000;

function taskOptions(schema: string, graph: LoadedGraph, node: string): TaskOptions {
  const policy = graph.activityNodes.policy(node);
  return {
    concurrency: policy.concurrency ?? DEFAULT_CONCURRENCY,
    ...(policy.taskQueue === undefined
      ? {}
      : { task_queue: nodeTaskQueue(schema, graph.name, graph.version, policy.taskQueue) }),
    ...(policy.startToCloseTimeout === undefined
      ? {}
      : { start_to_close: policy.startToCloseTimeout + BACKSTOP }),
    ...(policy.scheduleToStartTimeout === undefined
      ? {}
      : { schedule_to_start: policy.scheduleToStartTimeout }),
    ...(policy.heartbeatTimeout === undefined ? {} : { heartbeat: policy.heartbeatTimeout }),
  };
}

/** The checkpoint that was just made, as its saver would read it back. */
export function tupleOf(
  threadId: string,
  checkpoint: CheckpointTuple['checkpoint'],
  step: number,
): CheckpointTuple {
  return {
    config: { configurable: { thread_id: threadId, checkpoint_ns: '', checkpoint_id: checkpoint.id } },
    checkpoint,
    metadata: { source: 'loop', step, parents: {} },
    pendingWrites: [],
  };
}
