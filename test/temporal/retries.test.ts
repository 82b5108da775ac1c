import { setTimeout as delay } from 'node:timers/promises';
import { Annotation, entrypoint, interrupt, START, StateGraph, task } from '@langchain/langgraph';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { defineGraph } from '../../src/graph/define-graph.ts';
import { threadWorkflowId } from '../../src/contracts/ids.ts';
import type { RunResult } from '../../src/contracts/runs.ts';
import { eventually } from '../support/eventually.ts';
import { openInstallation, type Installation } from '../support/installation.ts';

const State = Annotation.Root({
  key: Annotation<string>(),
  log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
});

/** When each node was entered, by the key of the input and the node. */
const entered = new Map<string, number[]>();
/** What a node throws, entry by entry; nothing once it is used up. */
const failures = new Map<string, unknown[]>();

function node(name: string) {
  return ({ key }: { key: string }) => {
    const times = [...(entered.get(`${key} ${name}`) ?? []), Date.now()];
    entered.set(`${key} ${name}`, times);
    const error = failures.get(`${key} ${name}`)?.[times.length - 1];
    // eslint-disable-next-line typescript/only-throw-error -- what is thrown is up to the test
    if (error !== undefined) throw error;
    return { log: [name] };
  };
}
const times = (key: string, name: string): number => entered.get(`${key} ${name}`)?.length ?? 0;
const http = (status: number, headers: object = {}) =>
  Object.assign(new Error(`status ${status}`), { status, headers });

/** `quick` is done before `flaky` begins to fail. */
const parallel = new StateGraph(State)
  .addNode('quick', node('quick'))
  .addNode('flaky', async (state) => {
    await delay(30);
    return node('flaky')(state);
  })
  .addNode('end', node('end'))
  .addEdge(START, 'quick')
  .addEdge(START, 'flaky')
  .addEdge(['quick', 'flaky'], 'end')
  .compile();
const inner = new StateGraph(State)
  .addNode('one', node('one'))
  .addNode('two', node('two'))
  .addEdge(START, 'one')
  .addEdge('one', 'two')
  .compile();
const outer = new StateGraph(State).addNode('outer', inner).addEdge(START, 'outer').compile();
const asking = new StateGraph(State)
  .addNode('ask', ({ key }) => {
    const answer = String(interrupt('sure?'));
    node('ask')({ key });
    return { log: [answer] };
  })
  .addEdge(START, 'ask')
  .compile();
const flakyTask = task('flaky', async (key: string) => node('flaky')({ key }).log[0]);
const functional = entrypoint('functional', async ({ key }: { key: string }) => ({
  log: [await flakyTask(key)],
}));
const own = new StateGraph(State)
  .addNode('own', node('own'), {
    retryPolicy: { maxAttempts: 2, initialInterval: 1, jitter: false, logWarning: false },
  })
  .addEdge(START, 'own')
  .compile();
const patient = defineGraph({
  name: 'patient',
  version: '1',
  graph: new StateGraph(State).addNode('outer', inner).addEdge(START, 'outer').compile(),
  retry: { maximumAttempts: 1 },
  nodes: { outer: { retry: { maximumAttempts: 2, initialInterval: '10ms' } } },
});
const GRAPHS = { parallel, outer, asking, functional, own, patient };

let at: Installation;
beforeAll(async () => {
  at = await openInstallation();
  await at.startWorker(GRAPHS);
});
afterAll(() => at.close());

async function run(
  graph: keyof typeof GRAPHS,
  failing: Record<string, unknown[]>,
  retry?: object,
): Promise<RunResult & { key: string }> {
  const { key, run_id } = await begin(graph, failing, retry);
  return { ...(await at.client.waitForRun(run_id)), key };
}

async function begin(graph: keyof typeof GRAPHS, failing: Record<string, unknown[]>, retry?: object) {
  const key = crypto.randomUUID();
  for (const [name, errors] of Object.entries(failing)) failures.set(`${key} ${name}`, errors);
  const started = await at.client.startRun({
    graph,
    input: { key, log: [] },
    config: { retry: { maximumAttempts: 5, initialInterval: 10, ...retry } },
  });
  return { ...started, key };
}

const pause = (thread: string) =>
  eventually(async () => {
    const [newest] = await at.client.runs(thread);
    expect(newest?.retry).not.toBeNull();
    return newest;
  });

test('an error that may pass is tried again; what had finished beside it is not', async () => {
  const result = await run('parallel', { flaky: [new Error('once')] });
  expect(result).toMatchObject({ status: 'success', values: { log: ['flaky', 'quick', 'end'] } });
  expect([times(result.key, 'quick'), times(result.key, 'flaky')]).toEqual([1, 2]);
});

test('E15: 429 with retry-after is tried again after that time', async () => {
  const result = await run('parallel', { flaky: [http(429, { 'retry-after': '0.7' })] });
  expect(result.status).toBe('success');
  const [first = 0, second = 0] = entered.get(`${result.key} flaky`) ?? [];
  expect(second - first).toBeGreaterThanOrEqual(700);
});

test.each([
  ['bad input', http(400), 'refused'],
  ['401', http(401), 'unauthorized'],
  ['a bug', new TypeError("reading 'x' of undefined"), 'bug'],
])('E15: %s runs once, blocks the thread, and goes on after a fix', async (_, error, reason) => {
  const result = await run('parallel', { flaky: [error] });
  expect(result).toMatchObject({
    status: 'error',
    error: { name: error.name, message: error.message, node: 'flaky', attempts: 1, reason },
  });
  expect(result.error?.stack).toContain('retries.test.ts');
  expect(result.error?.hint).toContain(`perdure retry ${result.thread_id}`);
  expect(await at.client.thread(result.thread_id)).toMatchObject({ status: 'error' });
  const last = await at.client.waitForRun((await at.client.retry(result.thread_id)).run_id);
  expect(last).toMatchObject({ status: 'success', values: { log: ['flaky', 'quick', 'end'] } });
  expect([times(result.key, 'quick'), times(result.key, 'flaky')]).toEqual([1, 2]);
  await expect(at.client.retry(result.thread_id)).rejects.toMatchObject({ code: 'NOTHING_TO_RETRY' });
});

test('an error that stays ends the run after the attempts of its policy, without secrets', async () => {
  const error = new Error('no postgres://app:hunter2@db/x for Bearer abcdefghijkl with api_key=k-123456');
  const result = await run(
    'parallel',
    { flaky: Array.from({ length: 9 }, () => error) },
    { maximumAttempts: 2 },
  );
  expect(result).toMatchObject({ status: 'error', error: { attempts: 2, reason: 'unclassified' } });
  expect(times(result.key, 'flaky')).toBe(2);
  expect(JSON.stringify(result.error)).not.toMatch(/hunter2|abcdefghijkl|k-123456/);
});

test('a far side that asks for too long a pause blocks the thread at once', async () => {
  const result = await run('parallel', { flaky: [http(429, { 'retry-after': '7200' })] });
  expect(result).toMatchObject({ status: 'error', error: { reason: 'rate_limited', attempts: 1 } });
  expect(result.error?.hint).toContain('7200 s');
});

test('a pause can be cancelled, and cut short', async () => {
  const long = { initialInterval: '1h', maximumInterval: '1h' };
  const cancelled = await begin('parallel', { flaky: [new Error('x')] }, long);
  await pause(cancelled.thread_id);
  await at.client.cancel(cancelled.thread_id);
  expect((await at.client.waitForRun(cancelled.run_id)).status).toBe('cancelled');

  const hastened = await begin('parallel', { flaky: [new Error('x')] }, long);
  expect(await pause(hastened.thread_id)).toMatchObject({
    status: 'running',
    retry: { error: { message: 'x', node: 'flaky', attempts: 1 } },
  });
  expect(await at.client.retry(hastened.thread_id)).toMatchObject({
    run_id: hastened.run_id,
    hastened: true,
  });
  expect((await at.client.waitForRun(hastened.run_id)).status).toBe('success');
});

test('a pause outlives its workflow: the sweeper opens it again, and no attempt is made early', async () => {
  const started = await begin('parallel', { flaky: [http(503, { 'retry-after': '1' })] });
  await pause(started.thread_id);
  await at.temporal.workflow
    .getHandle(threadWorkflowId(at.schema, 'default', started.thread_id))
    .terminate('the history was lost');
  expect((await at.client.waitForRun(started.run_id)).status).toBe('success');
  const [first = 0, second = 0] = entered.get(`${started.key} flaky`) ?? [];
  expect(second - first).toBeGreaterThanOrEqual(1_000);
});

test('nodes of a subgraph are counted one by one, and named with the way to them', async () => {
  const two = [new Error('x'), new Error('x')];
  const result = await run(
    'outer',
    { one: two, two: [...two, new Error('the last')] },
    { maximumAttempts: 3 },
  );
  expect(result).toMatchObject({
    status: 'error',
    error: { node: 'outer|two', attempts: 3, message: 'the last' },
  });
  expect([times(result.key, 'one'), times(result.key, 'two')]).toEqual([3, 3]);
});

test("a node's policy comes over its graph's, and holds for what is inside the node", async () => {
  const key = crypto.randomUUID();
  failures.set(`${key} one`, [new Error('x')]);
  failures.set(`${key} two`, [new Error('y'), new Error('z')]);
  const result = await at.client.run({ graph: 'patient', input: { key, log: [] } });
  expect(result).toMatchObject({ status: 'error', error: { node: 'outer|two', attempts: 2, message: 'z' } });
});

test('an answer is not lost by the failure that follows it', async () => {
  const asked = await run('asking', { ask: [new Error('x'), new TypeError('y')] });
  const failed = await at.client.waitForRun((await at.client.answer(asked.thread_id, 'yes')).run_id);
  expect(failed).toMatchObject({ status: 'error', error: { name: 'TypeError', node: 'ask' } });
  const last = await at.client.waitForRun((await at.client.retry(asked.thread_id)).run_id);
  expect(last).toMatchObject({ status: 'success', values: { log: ['yes'] } });
});

test('tasks of a functional graph are tried again too', async () => {
  const result = await run('functional', { flaky: [new Error('x')] });
  expect(result).toMatchObject({ status: 'success', values: { log: ['flaky'] } });
});

test("a node's own policy comes first", async () => {
  const nine = Array.from({ length: 9 }, () => new Error('x'));
  const result = await run('own', { own: nine }, { maximumAttempts: 2 });
  expect(result).toMatchObject({ status: 'error', error: { attempts: 2 } });
  expect(times(result.key, 'own')).toBe(4);
});

test('input that was refused before the first checkpoint is given again', async () => {
  const refused = await at.client.run({ graph: 'parallel', input: null });
  expect(refused).toMatchObject({ status: 'error', error: { reason: 'bug' } });
  const { run_id, thread_id } = await at.client.retry(refused.thread_id);
  expect((await at.client.waitForRun(run_id)).error?.name).toBe(refused.error?.name);
  expect((await at.client.runs(thread_id)).map(({ kind }) => kind)).toEqual(['input', 'input']);
});
