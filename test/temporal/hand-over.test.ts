import { Annotation, interrupt, START, StateGraph } from '@langchain/langgraph';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { ThreadWorker } from '../../workers/thread-worker.ts';
import { eventually, until } from '../support/eventually.ts';
import { openInstallation, type Installation } from '../support/installation.ts';

const State = Annotation.Root({
  key: Annotation<string>(),
  log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
});

const entered: string[] = [];
/** Nodes wait here until they are let go, by key and name. */
const held = new Map<string, () => void>();
let holding = true;

function node(name: string) {
  return async ({ key }: { key: string }) => {
    entered.push(`${key} ${name}`);
    if (holding) await new Promise<void>((resolve) => held.set(`${key} ${name}`, resolve));
    return { log: [name] };
  };
}

const names = ['a', 'b', 'c', 'd'];
const chainOf = (all: string[]) => {
  const builder = new StateGraph(State);
  for (const name of all) builder.addNode(name, node(name));
  const edges = [START, ...all];
  for (const [index, name] of all.entries())
    builder.addEdge(edges[index] as typeof START, name as typeof START);
  return builder;
};
const chain = chainOf(names).compile();

const inner = chainOf(['x', 'y', 'z']).compile();
const nested = new StateGraph(State)
  .addNode('sub', inner)
  .addNode('after', node('after'))
  .addEdge(START, 'sub')
  .addEdge('sub', 'after')
  .compile();

/** A subgraph beside a node that asks: a drain stops the one, the question the other. */
const askingBeside = new StateGraph(State)
  .addNode('ask', ({ key }) => {
    entered.push(`${key} ask`);
    return { log: [String(interrupt('go on?'))] };
  })
  .addNode(
    'sub',
    new StateGraph(State)
      .addNode('x', node('x'))
      .addNode('y', node('y'))
      .addEdge(START, 'x')
      .addEdge('x', 'y')
      .compile(),
  )
  .addNode('join', () => ({}))
  .addEdge(START, 'ask')
  .addEdge(START, 'sub')
  .addEdge(['ask', 'sub'], 'join')
  .compile();
const graphs = { chain, nested, askingBeside };

let at: Installation;
const workers: ThreadWorker[] = [];
beforeAll(async () => {
  at = await openInstallation();
  await at.register(graphs);
});
afterEach(async () => {
  holding = true;
  for (const letGo of held.values()) letGo();
  await Promise.all(workers.splice(0).map((worker) => worker.stop()));
});
afterAll(() => at.close());

async function startWorker(options?: Parameters<Installation['startWorker']>[1]): Promise<ThreadWorker> {
  const worker = await at.startWorker(graphs, options);
  workers.push(worker);
  return worker;
}

async function start(graph: keyof typeof graphs) {
  const key = crypto.randomUUID();
  return { key, ...(await at.client.startRun({ graph, input: { key, log: [] } })) };
}
const letGo = async (place: string) => (await eventually(() => held.get(place)))();
const times = (key: string) =>
  entered.filter((one) => one.startsWith(key)).map((one) => one.slice(key.length + 1));

test('a worker that is told to stop hands its threads over at once, and each node runs once', async () => {
  const first = await startWorker();
  const runs = [await start('chain'), await start('chain'), await start('chain')];
  await Promise.all(runs.map(({ key }) => letGo(`${key} a`)));
  await until(() => runs.every(({ key }) => held.has(`${key} b`)));
  await startWorker();
  const asked = Date.now();
  const stopped = first.stop();
  for (const { key } of runs) await letGo(`${key} b`);
  await until(() => runs.every(({ key }) => held.has(`${key} c`)));
  // The heartbeat timeout is 5 s.
  expect(Date.now() - asked).toBeLessThan(3_500);
  await stopped;
  holding = false;
  for (const { key } of runs) await letGo(`${key} c`);
  for (const { key, run_id } of runs) {
    expect(await at.client.waitForRun(run_id)).toMatchObject({ status: 'success', values: { log: names } });
    expect(times(key)).toEqual(names);
  }
});

test('a subgraph is handed over between its nodes', async () => {
  const first = await startWorker();
  const { key, run_id } = await start('nested');
  await letGo(`${key} x`);
  await until(() => held.has(`${key} y`));
  const stopped = first.stop();
  await letGo(`${key} y`);
  await stopped;
  holding = false;
  await startWorker();
  expect(await at.client.waitForRun(run_id)).toMatchObject({
    status: 'success',
    values: { log: ['x', 'y', 'z', 'after'] },
  });
  expect(times(key)).toEqual(['x', 'y', 'z', 'after']);
});

test('what a drain stopped beside a question goes on before the question is put', async () => {
  const first = await startWorker();
  const { key, run_id, thread_id } = await start('askingBeside');
  await until(() => held.has(`${key} x`));
  const stopped = first.stop();
  await letGo(`${key} x`);
  await stopped;
  expect(await at.client.readRun(run_id)).toMatchObject({ status: 'running' });
  holding = false;
  await startWorker();
  expect(await at.client.waitForRun(run_id)).toMatchObject({
    status: 'interrupted',
    next: ['ask'],
    interrupts: [{ node: 'ask' }],
  });
  expect(times(key).filter((name) => name !== 'ask')).toEqual(['x', 'y']);
  const last = await at.client.waitForRun((await at.client.answer(thread_id, 'yes')).run_id);
  expect(last).toMatchObject({ status: 'success' });
  expect(times(key).filter((name) => name !== 'ask')).toEqual(['x', 'y']);
});

test('a run asked of a worker that stops is done by the next', async () => {
  holding = false;
  const first = await startWorker();
  const stopped = first.stop();
  const { key, run_id } = await start('chain');
  await stopped;
  await startWorker();
  expect(await at.client.waitForRun(run_id)).toMatchObject({ status: 'success' });
  expect(times(key)).toEqual(names);
});

test('an answer given as its worker stops reaches the node once', async () => {
  holding = false;
  const first = await startWorker();
  const { key, run_id, thread_id } = await start('askingBeside');
  await at.client.waitForRun(run_id);
  const [answered] = await Promise.all([at.client.answer(thread_id, 'yes'), first.stop()]);
  await startWorker();
  expect(await at.client.waitForRun(answered.run_id)).toMatchObject({
    status: 'success',
    values: { log: ['yes', 'x', 'y'] },
  });
  expect(times(key).filter((name) => name !== 'ask')).toEqual(['x', 'y']);
});

test('stopping twice is stopping once', async () => {
  const worker = await startWorker();
  await Promise.all([worker.stop(), worker.stop()]);
  await worker.stop();
  await expect(worker.ended).resolves.toBeUndefined();
});

test('a segment whose time is spent hands over between nodes, a subgraph included', async () => {
  holding = false;
  await startWorker({ segmentBudgetMs: 0 });
  const { key, run_id, thread_id } = await start('askingBeside');
  expect(await at.client.waitForRun(run_id)).toMatchObject({ status: 'interrupted' });
  const last = await at.client.waitForRun((await at.client.answer(thread_id, 'yes')).run_id);
  expect(last).toMatchObject({ status: 'success', values: { log: ['yes', 'x', 'y'] } });
  expect(times(key).filter((name) => name !== 'ask')).toEqual(['x', 'y']);
});
