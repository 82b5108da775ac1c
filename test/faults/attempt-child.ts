/** One attempt on a thread in a process of its own, killed at a named point. What it is to do comes in ORDER. */
import { defineGraph } from '../../src/graph/define-graph.ts';
import { openDatabase } from '../../src/postgres/database.ts';
import { armFault, type Fault } from '../../src/telemetry/fault-points.ts';
import { attemptGraphs, TOOLS } from './attempt-graphs.ts';
import { segmentsOf } from './segments.ts';
import { effectsIn } from './effects.ts';

export type AttemptOrder = {
  databaseUrl: string;
  schema: string;
  graph: string;
  threadId: string;
  fault: Fault;
};

const order = JSON.parse(process.env['ORDER'] ?? '') as AttemptOrder;
const database = openDatabase({ connectionString: order.databaseUrl, schema: order.schema });
const graphs = Object.entries(attemptGraphs(effectsIn(database))).map(([name, graph]) =>
  defineGraph({ name, version: '1', graph, tools: TOOLS }),
);
const advance = segmentsOf(database, graphs);
armFault(order.fault);
await advance(order.graph, order.threadId);
await database.close();
