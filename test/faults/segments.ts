import { randomUUID } from 'node:crypto';
import { PerdureSaver } from '../../src/checkpoint/saver.ts';
import type { AdvanceResult, DueTasks } from '../../src/contracts/thread-workflow.ts';
import type { GraphDefinition } from '../../src/graph/define-graph.ts';
import { withShape } from '../../src/graph/load-graphs.ts';
import { GraphRegistry } from '../../src/graph/registry.ts';
import { createTaskRunner } from '../../src/graph/run-task.ts';
import { createSegmentRunner } from '../../src/graph/segment.ts';
import { TaskFailure } from '../../src/graph/task-failure.ts';
import type { Database } from '../../src/postgres/database.ts';

/** Advances a thread by one segment and the tasks that it hands out, as activities of a worker do, without a Temporal. */
export type Advance = (graph: string, threadId: string) => Promise<AdvanceResult>;

export function segmentsOf(database: Database, definitions: readonly GraphDefinition[]): Advance {
  const graphs = new GraphRegistry();
  for (const definition of definitions) graphs.add(withShape(definition));
  const parts = {
    database,
    graphs,
    saver: new PerdureSaver(database),
    workerId: randomUUID(),
    budgetMs: 600_000,
  };
  const runSegment = createSegmentRunner(parts);
  const runTask = createTaskRunner(parts);
  const control = {
    cancelled: new AbortController().signal,
    draining: new AbortController().signal,
    heartbeat: () => undefined,
  };
  const settle = async (
    thread: Parameters<typeof runSegment>[0],
    handedOut: AdvanceResult,
    due: DueTasks,
  ): Promise<AdvanceResult> => {
    const { run_id } = handedOut;
    const { checkpoint_id, fence, alone } = due;
    const ended = await Promise.all(
      due.tasks.map(({ task_id, node }) =>
        runTask({ ...thread, run_id: run_id ?? '', checkpoint_id, fence, task_id, node, alone }, control),
      ),
    ).catch((error: unknown) => {
      if (error instanceof TaskFailure && error.result) return [error.result];
      throw error;
    });
    const [only] = ended;
    return alone && only && 'outcome' in only ? only : { outcome: 'handed_over', run_id, more: true };
  };
  return async (graph, threadId) => {
    const thread = { tenant_id: 'default', thread_id: threadId, graph, version: '1' };
    let result = await runSegment(thread, control);
    while (result.outcome === 'tasks' && result.due) result = await settle(thread, result, result.due);
    return result;
  };
}
