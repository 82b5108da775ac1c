import { Annotation, END, interrupt, Send, START, StateGraph } from '@langchain/langgraph';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { JsonValue } from '../../src/contracts/json.ts';
import { openInstallation, type Installation } from '../support/installation.ts';
import { ending, PlainThread } from '../support/plain.ts';

const append = () => Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] });
const State = Annotation.Root({ log: append(), name: Annotation<string>() });
const Inner = Annotation.Root({ steps: append() });

const shared = new StateGraph(State)
  .addNode('in1', () => ({ log: ['in1'] }))
  .addNode('in2', () => ({ log: ['in2'] }))
  .addEdge(START, 'in1')
  .addEdge('in1', 'in2')
  .compile();

const sharedState = new StateGraph(State)
  .addNode('before', () => ({ name: 'outer' }))
  .addNode('sub', shared)
  .addEdge(START, 'before')
  .addEdge('before', 'sub')
  .compile();

const own = new StateGraph(Inner)
  .addNode('x', () => ({ steps: ['x'] }))
  .addNode('y', ({ steps }) => ({ steps: [`y after ${steps.join()}`] }))
  .addEdge(START, 'x')
  .addEdge('x', 'y')
  .compile();

const ownState = new StateGraph(State)
  .addNode('call', async () => {
    const first = await own.invoke({ steps: ['one'] });
    return { log: first.steps };
  })
  .addEdge(START, 'call')
  .compile();

const deepest = new StateGraph(State)
  .addNode('ask', ({ name }) => ({ log: [`${name} said ${JSON.stringify(interrupt({ for: name }))}`] }))
  .addNode('asked', () => ({ log: ['asked'] }))
  .addEdge(START, 'ask')
  .addEdge('ask', 'asked')
  .compile();
const middle = new StateGraph(State)
  .addNode('down', deepest)
  .addNode('up', () => ({ log: ['up'] }))
  .addEdge(START, 'down')
  .addEdge('down', 'up')
  .compile();
const twoLevels = new StateGraph(State)
  .addNode('start', () => ({ log: ['start'] }))
  .addNode('middle', middle)
  .addNode('end', () => ({ log: ['end'] }))
  .addEdge(START, 'start')
  .addEdge('start', 'middle')
  .addEdge('middle', 'end')
  .compile();

const { log } = State.spec;
const One = Annotation.Root({ name: Annotation<string>(), log });
const askers = new StateGraph(State)
  .addNode(
    'each',
    new StateGraph({ state: One, output: Annotation.Root({ log }) })
      .addNode('ask', ({ name }) => ({ log: [`${name}: ${String(interrupt(`who is ${name}?`))}`] }))
      .addEdge(START, 'ask')
      .compile(),
  )
  .addConditionalEdges(START, () => ['Mira', 'Ana', 'Bo'].map((name) => new Send('each', { name })), ['each'])
  .addEdge('each', END)
  .compile();

/** Keeps its own memory between calls: `checkpointer: true`. */
const counter = new StateGraph(Annotation.Root({ calls: append() }))
  .addNode('count', ({ calls }) => ({ calls: [`call ${calls.length + 1}`] }))
  .addEdge(START, 'count')
  .compile({ checkpointer: true });
const remembering = new StateGraph(State)
  .addNode('call', async () => {
    const { calls } = await counter.invoke({ calls: [] });
    return { log: [calls.join(', ')] };
  })
  .addEdge(START, 'call')
  .compile();

const invoked = new StateGraph(State)
  .addNode('call', async () => {
    const inner = await deepest.invoke({ name: 'invoked', log: [] });
    return { log: inner.log };
  })
  .addEdge(START, 'call')
  .compile();

const graphs = { sharedState, ownState, twoLevels, askers, remembering, invoked };

let at: Installation;
beforeAll(async () => {
  at = await openInstallation();
  await at.startWorker(graphs);
});
afterAll(() => at.close());

test.each(['sharedState', 'ownState'] as const)(
  '%s: a subgraph runs as in plain LangGraph',
  async (graph) => {
    const input: JsonValue = { log: ['in'] };
    expect(ending(await at.client.run({ graph, input }))).toEqual(
      await new PlainThread(graphs[graph]).run(input),
    );
  },
);

test.each(['twoLevels', 'invoked'] as const)(
  '%s: an interrupt inside is asked and answered',
  async (graph) => {
    const plain = new PlainThread(graphs[graph]);
    const input = { name: 'Mira', log: [] };
    const first = await at.client.run({ graph, input });
    expect(ending(first)).toEqual(await plain.run(input));
    expect(first.status).toBe('interrupted');
    const { run_id } = await at.client.answer(first.thread_id, { yes: true });
    const last = await at.client.waitForRun(run_id);
    expect(ending(last)).toEqual(await plain.answer({ yes: true }));
    expect(last.status).toBe('success');
  },
);

test('the question names the node that asked, through every level', async () => {
  const { interrupts } = await at.client.run({ graph: 'twoLevels', input: { name: 'Mira', log: [] } });
  expect(interrupts).toMatchObject([{ node: 'middle|down|ask', value: { for: 'Mira' } }]);
});

test('three copies of a subgraph ask at once; each answer reaches its own', async () => {
  const first = await at.client.run({ graph: 'askers', input: { log: [] } });
  expect(first.interrupts?.map(({ value }) => value)).toEqual(['who is Mira?', 'who is Ana?', 'who is Bo?']);
  let last = first;
  for (const [index, answer] of [
    [2, 'third'],
    [0, 'first'],
    [1, 'second'],
  ] as const) {
    const { run_id } = await at.client.answer(first.thread_id, answer, {
      interruptId: first.interrupts?.[index]?.id ?? '',
    });
    last = await at.client.waitForRun(run_id);
  }
  expect(last).toMatchObject({
    status: 'success',
    values: { log: ['Mira: first', 'Ana: second', 'Bo: third'] },
  });
});

test('a subgraph with a memory of its own keeps it from run to run', async () => {
  const plain = new PlainThread(remembering);
  const thread_id = crypto.randomUUID();
  for (let run = 0; run < 3; run += 1)
    expect(ending(await at.client.run({ graph: 'remembering', thread_id, input: { log: [] } }))).toEqual(
      await plain.run({ log: [] }),
    );
});
