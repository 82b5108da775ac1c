import { Annotation, END, interrupt, START, StateGraph } from '@langchain/langgraph';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openInstallation, type Installation } from '../support/installation.ts';

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
});

const asking = new StateGraph(State)
  .addNode('before', () => ({ log: ['before'] }))
  .addNode('ask', () => ({ log: [`answer ${JSON.stringify(interrupt({ question: 'go on?' }))}`] }))
  .addEdge(START, 'before')
  .addEdge('before', 'ask')
  .addEdge('ask', END)
  .compile();

const plain = new StateGraph(State)
  .addNode('a', () => ({ log: ['a'] }))
  .addNode('b', () => ({ log: ['b'] }))
  .addEdge(START, 'a')
  .addEdge('a', 'b')
  .addEdge('b', END)
  .compile();

const failing = new StateGraph(State)
  .addNode('boom', () => {
    throw new TypeError('no such thing');
  })
  .addEdge(START, 'boom')
  .addEdge('boom', END)
  .compile();

let at: Installation;
beforeAll(async () => {
  at = await openInstallation();
  await at.startWorker({ plain, asking, failing });
});
afterAll(() => at.close());

test('a graph runs to its end and gives its output', async () => {
  const result = await at.client.run({ graph: 'plain', input: { log: ['in'] } });
  expect(result).toMatchObject({ status: 'success', version: '1', values: { log: ['in', 'a', 'b'] } });
});

test('a graph that asks waits, and goes on with the answer', async () => {
  const first = await at.client.run({ graph: 'asking', input: { log: [] } });
  expect(first.status).toBe('interrupted');
  expect(first.interrupts).toMatchObject([{ node: 'ask', value: { question: 'go on?' }, kind: 'interrupt' }]);
  const { run_id } = await at.client.answer(first.thread_id, false);
  const last = await at.client.waitForRun(run_id);
  expect(last).toMatchObject({ status: 'success', values: { log: ['before', 'answer false'] } });
  expect(await at.client.thread(first.thread_id)).toMatchObject({
    status: 'idle',
    pending_interrupts: 0,
    unfinished_runs: 0,
  });
});

test("a node's error ends the run and shows what it was", async () => {
  const result = await at.client.run({ graph: 'failing', input: { log: [] } });
  expect(result).toMatchObject({ status: 'error', error: { name: 'TypeError', message: 'no such thing' } });
});

test('runs of one thread go one after the other, in order', async () => {
  const thread_id = crypto.randomUUID();
  const runs = [];
  for (const word of ['one', 'two', 'three'])
    runs.push(await at.client.startRun({ graph: 'plain', thread_id, input: { log: [word] } }));
  const last = await at.client.waitForRun(runs[2]?.run_id ?? '');
  expect(last.values).toEqual({ log: ['one', 'a', 'b', 'two', 'a', 'b', 'three', 'a', 'b'] });
});

test("every checkpoint carries the graph's version and what comes next", async () => {
  const { thread_id } = await at.client.run({ graph: 'plain', input: { log: [] } });
  const history = await at.client.history(thread_id);
  expect(
    history.map((entry) => [entry.superstep, entry.graph_version, entry.resume_node, entry.pending_tasks]),
  ).toEqual([
    [2, 'plain@1', null, []],
    [1, 'plain@1', 'b', ['b']],
    [0, 'plain@1', 'a', ['a']],
    [-1, 'plain@1', '__start__', ['__start__']],
  ]);
});
