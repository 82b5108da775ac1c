import { setTimeout as delay } from 'node:timers/promises';
import {
  Annotation,
  END,
  entrypoint,
  interrupt,
  Send,
  START,
  StateGraph,
  task,
  type LangGraphRunnableConfig,
} from '@langchain/langgraph';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { defineGraph } from '../../src/graph/define-graph.ts';
import { operation } from '../../src/index.ts';
import { until } from '../support/eventually.ts';
import { openInstallation, type Installation } from '../support/installation.ts';
import { ending, PlainThread } from '../support/plain.ts';
import { taskActivities } from '../support/task-activities.ts';

const State = Annotation.Root({
  key: Annotation<string>(),
  log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
});
type Item = { key: string; i: number };

const entered: string[] = [];
const times = (key: string, name: string) => entered.filter((one) => one === `${key} ${name}`).length;
/** What a node throws, entry by entry. */
const failures = new Map<string, Error[]>();
const told = new Set<string>();
const node =
  (name: string) =>
  ({ key }: { key: string }) => {
    entered.push(`${key} ${name}`);
    const error = failures.get(`${key} ${name}`)?.[times(key, name) - 1];
    if (error) throw error;
    return { log: [name] };
  };
const wait =
  (name: string) =>
  async ({ key }: { key: string }, { signal }: LangGraphRunnableConfig) => {
    entered.push(`${key} ${name}`);
    signal?.addEventListener('abort', () => told.add(key));
    await delay(20_000, undefined, signal ? { signal } : {});
    return { log: [name] };
  };
const http = (status: number) => Object.assign(new Error(`status ${status}`), { status });

/** Two nodes at once, of which one runs as an activity, so both do. */
const pair = new StateGraph(State)
  .addNode('left', node('left'))
  .addNode('right', node('right'))
  .addNode('end', node('end'))
  .addEdge(START, 'left')
  .addEdge(START, 'right')
  .addEdge(['left', 'right'], 'end')
  .compile();
const lone = new StateGraph(State)
  .addNode('tool', node('tool'))
  .addNode('end', node('end'))
  .addEdge(START, 'tool')
  .addEdge('tool', 'end')
  .compile();
const slow = new StateGraph(State)
  .addNode('slow', wait('slow'))
  .addNode('beside', node('beside'))
  .addEdge(START, 'slow')
  .addConditionalEdges(START, ({ log }) => (log.includes('both') ? ['beside'] : []), ['beside'])
  .compile();
const circle = new StateGraph(State)
  .addNode('tool', node('tool'))
  .addEdge(START, 'tool')
  .addConditionalEdges('tool', () => 'tool', ['tool'])
  .compile();
const inner = new StateGraph(State)
  .addNode('one', node('one'))
  .addNode('ask', () => ({ log: [`${String(interrupt('first?'))} ${String(interrupt('second?'))}`] }))
  .addEdge(START, 'one')
  .addEdge('one', 'ask')
  .compile();
const nested = new StateGraph(State)
  .addNode('sub', inner)
  .addNode('beside', node('beside'))
  .addNode('end', node('end'))
  .addEdge(START, 'sub')
  .addEdge(START, 'beside')
  .addEdge(['sub', 'beside'], 'end')
  .compile();
const shout = task('shout', async (word: string) => word.toUpperCase());
const functional = entrypoint('functional', async ({ key }: { key: string }) => ({
  log: [await shout('a'), String(interrupt('go on?')), await shout('b'), key],
}));
const handled = new StateGraph(State)
  .addNode('risky', node('risky'), {
    errorHandler: (_state, { error }) => ({ log: [`handled ${error.message}`] }),
  })
  .addNode('beside', node('beside'))
  .addNode('end', node('end'))
  .addEdge(START, 'risky')
  .addEdge(START, 'beside')
  .addEdge(['risky', 'beside'], 'end')
  .compile();
const effects = new StateGraph(State)
  .addNode('plan', () => ({}))
  .addNode('pay', async ({ i }: Item) => {
    const paid = await operation(
      'pay',
      { kind: 'idempotent', args: { i } },
      ({ operationId }) => operationId,
    );
    return { log: [paid] };
  })
  .addNode('single', async () => ({
    log: [await operation('single', { kind: 'exclusive' }, ({ operationId }) => operationId)],
  }))
  .addEdge(START, 'plan')
  .addConditionalEdges('plan', () => [0, 1, 2].map((i) => new Send('pay', { i })), ['pay'])
  .addEdge('pay', 'single')
  .addEdge('single', END)
  .compile();

const quick = { initialInterval: 20, maximumAttempts: 3 };
const activity = { run: 'activity' as const };
const version = '1';
const graphs = {
  pair: defineGraph({
    name: 'pair',
    version,
    graph: pair,
    nodes: { left: { ...activity, retry: quick } },
    retry: quick,
  }),
  lone: defineGraph({ name: 'lone', version, graph: lone, nodes: { tool: { ...activity, retry: quick } } }),
  slow: defineGraph({ name: 'slow', version, graph: slow, nodes: { slow: activity } }),
  timed: defineGraph({
    name: 'timed',
    version,
    graph: slow,
    nodes: { slow: { startToCloseTimeout: '200 ms', retry: { maximumAttempts: 2, initialInterval: 20 } } },
  }),
  circle: defineGraph({ name: 'circle', version, graph: circle, nodes: { tool: activity } }),
  nested: defineGraph({ name: 'nested', version, graph: nested, nodes: { sub: activity } }),
  functional: defineGraph({
    name: 'functional',
    version,
    graph: functional,
    nodes: { functional: activity },
  }),
  handled: defineGraph({
    name: 'handled',
    version,
    graph: handled,
    nodes: { risky: { ...activity, retry: quick } },
  }),
  effects: defineGraph({
    name: 'effects',
    version,
    graph: effects,
    nodes: { pay: activity, single: activity },
  }),
  inline: defineGraph({ name: 'inline', version, graph: effects }),
};
/** Its tool runs on machines of its own. */
const away = defineGraph({
  name: 'away',
  version,
  graph: lone,
  nodes: { tool: { taskQueue: 'gpu', scheduleToStartTimeout: '2s' } },
});

let at: Installation;
beforeAll(async () => {
  at = await openInstallation();
  await at.startWorker(graphs);
});
afterAll(() => at.close());

const start = async (graph: keyof typeof graphs, more: object = {}) => {
  const key = crypto.randomUUID();
  return { key, ...(await at.client.startRun({ graph, input: { key, log: [] }, ...more })) };
};
async function run(graph: keyof typeof graphs, prepare: (key: string) => void = () => {}, more: object = {}) {
  const key = crypto.randomUUID();
  prepare(key);
  return { key, ...(await at.client.run({ graph, input: { key, log: [] }, ...more })) };
}

test('a task that fails is tried again by the policy of its node, and its sibling is not', async () => {
  const result = await run('pair', (key) => failures.set(`${key} left`, [http(503), http(503)]));
  expect(result).toMatchObject({ status: 'success', values: { log: ['left', 'right', 'end'] } });
  expect([times(result.key, 'left'), times(result.key, 'right')]).toEqual([3, 1]);
});

test('a task that fails for good ends the run, its sibling keeps its result, and a retry runs it alone', async () => {
  const dead = [http(503), http(503), http(503)];
  const result = await run('pair', (key) => failures.set(`${key} left`, dead));
  expect(result).toMatchObject({
    status: 'error',
    error: { message: 'status 503', node: 'left', attempts: 3, reason: 'unavailable' },
  });
  expect(result.error?.hint).toContain(`perdure retry ${result.thread_id}`);
  const again = await at.client.retry(result.thread_id);
  expect(await at.client.waitForRun(again.run_id)).toMatchObject({
    status: 'success',
    values: { log: ['left', 'right', 'end'] },
  });
  expect([times(result.key, 'left'), times(result.key, 'right')]).toEqual([4, 1]);
});

test('an error of the code is not tried again, beside others or alone', async () => {
  for (const [graph, name] of [
    ['pair', 'left'],
    ['lone', 'tool'],
  ] as const) {
    const result = await run(graph, (key) => failures.set(`${key} ${name}`, [new TypeError('a bug')]));
    expect(result).toMatchObject({
      status: 'error',
      error: { name: 'TypeError', node: name, reason: 'bug' },
    });
    expect(times(result.key, name)).toBe(1);
  }
});

test('a task that is alone is tried again as well', async () => {
  const result = await run('lone', (key) => failures.set(`${key} tool`, [http(429), http(503)]));
  expect(result).toMatchObject({ status: 'success', values: { log: ['tool', 'end'] } });
  expect(times(result.key, 'tool')).toBe(3);
});

test('a task whose time is up is told to stop, tried again, and then ends the run', async () => {
  for (const log of [[], ['both']]) {
    const key = crypto.randomUUID();
    const result = await at.client.run({ graph: 'timed', input: { key, log } });
    expect(result).toMatchObject({
      status: 'error',
      error: { code: 'NODE_TIMEOUT', node: 'slow', attempts: 2 },
    });
    expect(times(key, 'slow')).toBe(2);
    expect(told).toContain(key);
  }
});

test('a cancel reaches tasks, alone and beside others', async () => {
  for (const log of [[], ['both']]) {
    const key = crypto.randomUUID();
    const { run_id, thread_id } = await at.client.startRun({ graph: 'slow', input: { key, log } });
    await until(() => times(key, 'slow') === 1 && (log.length === 0 || times(key, 'beside') === 1));
    const asked = Date.now();
    await at.client.cancel(thread_id);
    expect(await at.client.waitForRun(run_id)).toMatchObject({ status: 'cancelled' });
    expect(Date.now() - asked).toBeLessThan(6_000);
    expect(told).toContain(key);
  }
});

test('the recursion limit counts supersteps of activities', async () => {
  const config = { recursion_limit: 4 };
  const result = await run('circle', undefined, { config });
  const plain = await new PlainThread(circle, config).run({ key: 'plain', log: [] });
  expect(ending(result)).toEqual(plain);
  expect(times(result.key, 'tool')).toBe(times('plain', 'tool'));
});

test('static interrupts stop before and after a node that runs as an activity', async () => {
  for (const config of [{ interrupt_before: ['tool'] }, { interrupt_after: ['tool'] }]) {
    const first = await run('lone', undefined, { config });
    expect(first).toMatchObject({ status: 'interrupted', interrupts: [] });
    const before = 'interrupt_before' in config;
    expect([first.next, times(first.key, 'tool')]).toEqual([[before ? 'tool' : 'end'], before ? 0 : 1]);
    const { run_id } = await at.client.continueThread(first.thread_id);
    expect(await at.client.waitForRun(run_id)).toMatchObject({ status: 'success' });
    expect([times(first.key, 'tool'), times(first.key, 'end')]).toEqual([1, 1]);
  }
});

test('a subgraph in a task asks twice, and runs no node twice', async () => {
  const first = await run('nested');
  expect(first).toMatchObject({ status: 'interrupted', interrupts: [{ node: 'sub|ask', value: 'first?' }] });
  const second = await at.client.waitForRun((await at.client.answer(first.thread_id, 'yes')).run_id);
  expect(second).toMatchObject({
    status: 'interrupted',
    interrupts: [{ node: 'sub|ask', value: 'second?' }],
  });
  const last = await at.client.waitForRun((await at.client.answer(first.thread_id, 'no')).run_id);
  const plain = new PlainThread(nested);
  await plain.run({ key: 'plain nested', log: [] });
  await plain.answer('yes');
  expect(ending(last).values).toMatchObject({
    log: ((await plain.answer('no')).values as { log: string[] }).log,
  });
  expect([times(first.key, 'one'), times(first.key, 'beside'), times(first.key, 'end')]).toEqual([1, 1, 1]);
});

test('a functional graph runs as an activity', async () => {
  const first = await run('functional');
  expect(first).toMatchObject({ status: 'interrupted', interrupts: [{ value: 'go on?' }] });
  const last = await at.client.waitForRun((await at.client.answer(first.thread_id, 'yes')).run_id);
  expect(last).toMatchObject({ status: 'success', values: { log: ['A', 'yes', 'B', first.key] } });
});

test("a node's own error handler runs once, when the node's tries are used up", async () => {
  const dead = Array.from({ length: 3 }, () => http(503));
  const result = await run('handled', (key) => failures.set(`${key} risky`, dead));
  expect(result).toMatchObject({ status: 'success' });
  const key = 'plain handled';
  failures.set(`${key} risky`, dead);
  const plain = await new PlainThread(handled).run({ key, log: [] });
  expect(result.values).toEqual({ ...(plain.values as object), key: result.key });
  expect([times(result.key, 'risky'), times(result.key, 'beside')]).toEqual([3, 1]);
});

test('a fork before tasks runs them again, and their effects are on record', async () => {
  const first = await run('effects');
  const log = (first.values as { log: string[] }).log;
  const before = (await at.client.history(first.thread_id)).find(({ resume_node }) =>
    resume_node?.startsWith('pay'),
  );
  const fork = await at.client.fork(first.thread_id, { checkpointId: before?.checkpoint_id ?? '' });
  expect(await at.client.waitForRun(fork.run_id)).toMatchObject({ status: 'success', values: { log } });
  expect((await taskActivities(at, first.thread_id)).length).toBe(8);
});

test('an operation has the same id inline and in an activity', async () => {
  const other = await openInstallation();
  try {
    await other.startWorker({ inline: graphs.inline });
    const thread_id = crypto.randomUUID();
    const input = { key: 'same', log: [] };
    const here = await at.client.run({ graph: 'effects', thread_id, input });
    const there = await other.client.run({ graph: 'inline', thread_id, input });
    expect(here).toMatchObject({ status: 'success', values: { log: { length: 4 } } });
    expect(here.values).toEqual(there.values);
    const ids = async (of: Installation) =>
      (await of.client.operations({ threadId: thread_id }))
        .map(({ operation_id }) => operation_id)
        .toSorted();
    expect(await ids(at)).toEqual(await ids(other));
  } finally {
    await other.close();
  }
});

test('a worker that stops hands back what it has not begun, and finishes what it has', async () => {
  const { key, run_id, thread_id } = await start('pair');
  const worker = await at.startWorker({ pair: graphs.pair });
  await worker.stop();
  expect(await at.client.waitForRun(run_id)).toMatchObject({ status: 'success', thread_id });
  expect([times(key, 'left'), times(key, 'right'), times(key, 'end')]).toEqual([1, 1, 1]);
});

test('a task waits for a worker of its own queue no longer than it may, and runs there', async () => {
  await at.startWorker({ away }, { taskQueues: ['graphs'] });
  const key = crypto.randomUUID();
  const first = await at.client.run({ graph: 'away', input: { key, log: [] } });
  expect(first).toMatchObject({ status: 'error', error: { name: 'TaskTimeoutError' } });
  expect(first.error?.message).toContain("node 'tool'");
  await at.startWorker({ away }, { taskQueues: ['gpu'] });
  const { run_id } = await at.client.retry(first.thread_id);
  expect(await at.client.waitForRun(run_id)).toMatchObject({ status: 'success' });
  expect((await taskActivities(at, first.thread_id)).map(({ queue }) => queue)).toEqual(
    Array.from({ length: 2 }, () => `${at.schema}/away@1/gpu`),
  );
  await expect(at.startWorker({ away }, { taskQueues: ['cpu'] })).rejects.toThrow('there are graphs, gpu');
});
