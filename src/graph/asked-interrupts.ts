import { isResult } from '../checkpoint/progress.ts';
import type { InterruptOrigin } from '../checkpoint/attempt.ts';
import type { BoundSaver } from '../checkpoint/saver.ts';
import type { DeadlinePolicy } from '../contracts/deadlines.ts';
import { OPERATION_QUESTION_PREFIX } from '../contracts/operations.ts';
import type { AskedInterrupt } from '../threads/segment.ts';
import type { CompiledGraph } from './define-graph.ts';
import { jsonView } from './json-view.ts';

export type Stopped = {
  asked: AskedInterrupt[];
  /** The names of the nodes whose tasks have no result yet, one entry a task. */
  next: string[];
  /** Whether one of those tasks asks nothing: it was not begun, or stopped for a drain. */
  unasked: boolean;
};

/** What the thread waits for: the pending interrupts, in LangGraph's order, and the nodes that come next. */
export async function askedInterrupts(
  graph: CompiledGraph,
  saver: BoundSaver,
  checkpointThreadId: string,
  head: string,
): Promise<Stopped> {
  const config = { configurable: { thread_id: checkpointThreadId } };
  const state = await graph.getState(config, { subgraphs: true });
  // Not state.next: LangGraph leaves out a task that has been answered once and asks again.
  const written = (await saver.getTuple(config))?.pendingWrites ?? [];
  const finished = new Set(
    written.filter(([taskId, channel]) => isResult(taskId, channel)).map(([taskId]) => taskId),
  );
  const unfinished = state.tasks.filter((task) => !finished.has(task.id));
  const found = new Map<string, AskedInterrupt>();
  const rootOrigin = { checkpointNs: '', checkpointId: head };
  collect(unfinished, '', rootOrigin, (node, at, interrupt) => {
    // Inner levels come later and win: they name the node that really asked. What was asked in another process is
    // told by the snapshots.
    const origin = saver.asked.get(interrupt.id) ?? at;
    found.set(interrupt.id, {
      interrupt_id: interrupt.id,
      kind: isOperationQuestion(interrupt) ? 'operation' : 'interrupt',
      node,
      checkpoint_id: head,
      origin_ns: origin.checkpointNs,
      origin_checkpoint_id: origin.checkpointId,
      origin_task_id: origin.taskId,
      operation_id: operationOf(interrupt.value),
      value: jsonView(interrupt.value),
    });
  });
  return {
    asked: [...found.values()],
    next: unfinished.map((task) => task.name),
    unasked: unfinished.some((task) => task.interrupts.length === 0),
  };
}

/** Gives a deadline to what a person is asked. What became of an operation is never guessed. */
export function withDeadline(
  asked: AskedInterrupt[],
  deadline: DeadlinePolicy | undefined,
): AskedInterrupt[] {
  if (deadline === undefined) return asked;
  return asked.map((one) => (one.kind === 'interrupt' ? { ...one, deadline } : one));
}

type Task = { id: string; name: string; interrupts: { id?: string; value?: unknown }[]; state?: unknown };

function collect(
  tasks: readonly Task[],
  path: string,
  at: Omit<InterruptOrigin, 'taskId'>,
  visit: (node: string, origin: InterruptOrigin, interrupt: { id: string; value: unknown }) => void,
): void {
  for (const task of tasks) {
    const node = path === '' ? task.name : `${path}|${task.name}`;
    for (const interrupt of task.interrupts)
      if (interrupt.id !== undefined)
        visit(node, { ...at, taskId: task.id }, { id: interrupt.id, value: interrupt.value });
    if (
      typeof task.state === 'object' &&
      task.state !== null &&
      'tasks' in task.state &&
      Array.isArray(task.state.tasks)
    )
      collect(task.state.tasks as Task[], node, placeOf(task.state) ?? at, visit);
  }
}

/** Where a subgraph's snapshot was taken. */
function placeOf(state: object): Omit<InterruptOrigin, 'taskId'> | undefined {
  const { checkpoint_ns: ns, checkpoint_id: id } =
    (state as { config?: { configurable?: Record<string, unknown> } }).config?.configurable ?? {};
  return typeof ns === 'string' && typeof id === 'string'
    ? { checkpointNs: ns, checkpointId: id }
    : undefined;
}

function isOperationQuestion(interrupt: { id: string; value: unknown }): boolean {
  return interrupt.id.startsWith(OPERATION_QUESTION_PREFIX) && operationOf(interrupt.value) !== null;
}

function operationOf(value: unknown): string | null {
  if (typeof value !== 'object' || value === null || !('type' in value)) return null;
  if (value.type !== 'operation_unknown' && value.type !== 'operation_new') return null;
  return 'operation_id' in value && typeof value.operation_id === 'string' ? value.operation_id : null;
}
