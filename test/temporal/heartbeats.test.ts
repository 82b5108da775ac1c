import { Annotation, START, StateGraph } from '@langchain/langgraph';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { until } from '../support/eventually.ts';
import { openInstallation, type Installation } from '../support/installation.ts';

const State = Annotation.Root({ blocked: Annotation<number>() });
let entered = 0;
let waiting = 0;
let aborted = 0;

/** Computes for 3 s, as a parser of a big document might. */
const blocking = new StateGraph(State)
  .addNode('compute', () => {
    entered += 1;
    const begun = performance.now();
    while (performance.now() - begun < 3_000);
    return { blocked: 3_000 };
  })
  .addEdge(START, 'compute')
  .compile();

const endless = new StateGraph(State)
  .addNode('wait', async (_, { signal }) => {
    waiting += 1;
    await new Promise<void>((resolve) => {
      signal?.addEventListener('abort', () => resolve());
    });
    aborted += 1;
    throw new Error('stopped');
  })
  .addEdge(START, 'wait')
  .compile();

let installation: Installation;

beforeAll(async () => {
  installation = await openInstallation('heartbeats');
  await installation.startWorker({ blocking, endless }, { heartbeatThread: true });
});
afterAll(() => installation.close());

test('a node that blocks the event loop for 3 s is not taken for dead', { timeout: 60_000 }, async () => {
  const { run_id, status } = await installation.client.run({ graph: 'blocking', input: {} });
  expect(status).toBe('success');
  const { rows } = await installation.database.query<{ attempts: number }>(
    `SELECT attempts FROM ${installation.database.table('runs')} WHERE run_id = $1`,
    [run_id],
  );
  expect({ attempts: rows[0]?.attempts, entered }).toEqual({ attempts: 1, entered: 1 });
});

test('a cancel is heard through the heartbeat thread', { timeout: 60_000 }, async () => {
  const { run_id, thread_id } = await installation.client.startRun({ graph: 'endless', input: {} });
  await until(() => waiting > 0);
  await installation.client.cancel(thread_id);
  expect((await installation.client.waitForRun(run_id)).status).toBe('cancelled');
  expect(aborted).toBe(1);
});
