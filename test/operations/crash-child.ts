/** A worker's attempt in a process of its own, killed at a named point when asked to be. */
import { randomUUID } from 'node:crypto';
import { JsonPlusSerializer } from '@langchain/langgraph-checkpoint';
import { withRunContext } from '../../src/operations/run-context.ts';
import { openDatabase } from '../../src/postgres/database.ts';
import { armFault } from '../../src/telemetry/fault-points.ts';
import { chargeGraph, type Charge } from './one-operation.ts';

export type ChildOrder = {
  databaseUrl: string;
  schema: string;
  threadId: string;
  charge: Charge;
  /** Where to be killed. */
  point?: string;
  /** How many children to wait for before the operation begins. */
  together?: number;
};

const order = JSON.parse(process.env['CHILD_ORDER'] ?? '') as ChildOrder;
const database = openDatabase({ connectionString: order.databaseUrl, schema: order.schema });
if (order.point !== undefined) armFault({ point: order.point });
if (order.together !== undefined) await fetch(`${order.charge.farSide}/gate?count=${order.together}`);
const state = await withRunContext(
  {
    database,
    tenantId: 'default',
    threadId: order.threadId,
    checkpointThreadId: order.threadId,
    lineageRoot: order.threadId,
    runId: randomUUID(),
    fence: 1,
    signal: new AbortController().signal,
    stepOf: () => undefined,
    serde: new JsonPlusSerializer(),
    workerId: randomUUID(),
    fail: () => undefined,
  },
  () => chargeGraph(order.charge).invoke({}, { configurable: { thread_id: order.threadId } }),
);
console.log(JSON.stringify(state));
await database.close();
