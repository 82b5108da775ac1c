/** Asks something of a thread in a process of its own, killed at a named point. What it is to do comes in ORDER. */
import { connect } from '../../src/client/connect.ts';
import type { JsonValue } from '../../src/contracts/json.ts';
import type { OperationResolution } from '../../src/contracts/operations.ts';
import type { RunRequest } from '../../src/contracts/runs.ts';
import { armFault } from '../../src/telemetry/fault-points.ts';

export type AskingOrder = {
  databaseUrl: string;
  temporalAddress: string;
  schema: string;
  fault: string;
  ask:
    | { startRun: RunRequest }
    | { answer: { thread: string; interrupt: string; value: JsonValue } }
    | { resolve: { operation: string; resolution: OperationResolution } };
};

const { databaseUrl, temporalAddress, schema, fault, ask } = JSON.parse(
  process.env['ORDER'] ?? '',
) as AskingOrder;
const client = await connect({
  databaseUrl,
  schema,
  temporal: { address: temporalAddress, namespace: 'default', apiKey: undefined, tls: undefined },
});
armFault({ point: fault });
if ('startRun' in ask) await client.startRun(ask.startRun);
else if ('answer' in ask)
  await client.answer(ask.answer.thread, ask.answer.value, {
    interruptId: ask.answer.interrupt,
    actor: 'user:reviewer',
  });
else await client.resolveOperation(ask.resolve.operation, ask.resolve.resolution, 'user:clerk');
await client.close();
