import { randomUUID } from 'node:crypto';
import { PerdureSaver } from '../../src/checkpoint/saver.ts';
import type { AdvanceResult } from '../../src/contracts/thread-workflow.ts';
import type { GraphDefinition } from '../../src/graph/define-graph.ts';
import { withShape } from '../../src/graph/load-graphs.ts';
import { GraphRegistry } from '../../src/graph/registry.ts';
import { createSegmentRunner } from '../../src/graph/segment.ts';
import type { Database } from '../../src/postgres/database.ts';

/** Advances a thread by one segment, as the activity of a worker does, without a Temporal. */
export type Advance = (graph: string, threadId: string) => Promise<AdvanceResult>;

export function segmentsOf(database: Database, definitions: readonly GraphDefinition[]): Advance {
  const graphs = new GraphRegistry();
  for (const definition of definitions) graphs.add(withShape(definition));
  const run = createSegmentRunner({
    database,
    graphs,
    saver: new PerdureSaver(database),
    workerId: randomUUID(),
    budgetMs: 600_000,
  });
  return (graph, threadId) =>
    run(
      { tenant_id: 'default', thread_id: threadId, graph, version: '1' },
      {
        cancelled: new AbortController().signal,
        draining: new AbortController().signal,
        heartbeat: () => undefined,
      },
    );
}
