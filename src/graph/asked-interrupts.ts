import type { AskedInterrupt } from '../threads/segment.ts';
import type { CompiledGraph } from './define-graph.ts';
import { jsonView } from './json-view.ts';

/** Where the saver saw a question being asked. */
export type InterruptOrigin = { checkpointNs: string; checkpointId: string; taskId: string };

export type Stopped = { asked: AskedInterrupt[]; next: string[] };

/** What the thread waits for: the pending interrupts, in LangGraph's order, and the nodes that come next. */
export async function askedInterrupts(
  graph: CompiledGraph,
  checkpointThreadId: string,
  head: string,
  origins: ReadonlyMap<string, InterruptOrigin>,
): Promise<Stopped> {
  const state = await graph.getState({ configurable: { thread_id: checkpointThreadId } }, { subgraphs: true });
  const found = new Map<string, AskedInterrupt>();
  collect(state.tasks, '', (node, taskId, interrupt) => {
    // Inner levels come later and win: they name the node that really asked.
    const origin = origins.get(interrupt.id);
    found.set(interrupt.id, {
      interrupt_id: interrupt.id,
      kind: isOperationQuestion(interrupt) ? 'operation' : 'interrupt',
      node,
      checkpoint_id: head,
      origin_ns: origin?.checkpointNs ?? '',
      origin_checkpoint_id: origin?.checkpointId ?? head,
      origin_task_id: origin?.taskId ?? taskId,
      operation_id: operationOf(interrupt.value),
      value: jsonView(interrupt.value),
    });
  });
  return { asked: [...found.values()], next: [...state.next] };
}

type Task = { id: string; name: string; interrupts: { id?: string; value?: unknown }[]; state?: unknown };

function collect(
  tasks: readonly Task[],
  path: string,
  visit: (node: string, taskId: string, interrupt: { id: string; value: unknown }) => void,
): void {
  for (const task of tasks) {
    const node = path === '' ? task.name : `${path}|${task.name}`;
    for (const interrupt of task.interrupts)
      if (interrupt.id !== undefined) visit(node, task.id, { id: interrupt.id, value: interrupt.value });
    if (typeof task.state === 'object' && task.state !== null && 'tasks' in task.state && Array.isArray(task.state.tasks))
      collect(task.state.tasks as Task[], node, visit);
  }
}

function isOperationQuestion(interrupt: { id: string; value: unknown }): boolean {
  return interrupt.id.startsWith('op-') && operationOf(interrupt.value) !== null;
}

function operationOf(value: unknown): string | null {
  if (typeof value !== 'object' || value === null || !('type' in value) || value.type !== 'operation_unknown') return null;
  return 'operation_id' in value && typeof value.operation_id === 'string' ? value.operation_id : null;
}
