import { Annotation, Command, END, Send, START, StateGraph } from '@langchain/langgraph';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { JsonValue } from '../../src/contracts/json.ts';
import { openInstallation, type Installation } from '../support/installation.ts';
import { ending, PlainThread } from '../support/plain.ts';

const append = () => Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] });
const State = Annotation.Root({ log: append(), n: Annotation<number>() });

const conditional = new StateGraph(State)
  .addNode('look', ({ n }) => ({ log: [`look ${n}`] }))
  .addNode('odd', () => ({ log: ['odd'] }))
  .addNode('even', ({ n }) => ({ log: ['even'], n: n / 2 }))
  .addEdge(START, 'look')
  .addConditionalEdges('look', ({ n }) => (n % 2 === 0 ? 'halve' : 'stop'), { halve: 'even', stop: 'odd' })
  .addEdge('even', 'look')
  .addEdge('odd', END)
  .compile();

const fanOut = new StateGraph(State)
  .addNode('split', () => ({}))
  .addNode('work', ({ n }) => ({ log: [`work ${n}`] }))
  .addNode('join', ({ log }) => ({ n: log.length }))
  .addEdge(START, 'split')
  .addConditionalEdges('split', ({ n }) => Array.from({ length: n }, (_, i) => new Send('work', { n: i })), [
    'work',
  ])
  .addEdge('work', 'join')
  .addEdge('join', END)
  .compile();

const commands = new StateGraph(State)
  .addNode('first', () => new Command({ goto: 'third', update: { log: ['first'] } }), {
    ends: ['second', 'third'],
  })
  .addNode('second', () => ({ log: ['second'] }))
  .addNode(
    'third',
    ({ n }) =>
      new Command({
        goto: n > 1 ? ['second', new Send('fourth', { n: 7 })] : END,
        update: { log: ['third'] },
      }),
    {
      ends: ['second', 'fourth', END],
    },
  )
  .addNode('fourth', ({ n }) => ({ log: [`fourth ${n}`] }))
  .addEdge(START, 'first')
  .compile();

const handsUp = new StateGraph(State)
  .addNode(
    'inside',
    () => new Command({ graph: Command.PARENT, goto: 'after', update: { log: ['from inside'], n: 5 } }),
  )
  .addEdge(START, 'inside')
  .compile();

const parentCommand = new StateGraph(State)
  .addNode('sub', handsUp, { ends: ['after'] })
  .addNode('after', ({ n }) => ({ log: [`after ${n}`] }))
  .addEdge(START, 'sub')
  .addEdge('after', END)
  .compile();

const deferred = new StateGraph(State)
  .addNode('fork', () => ({ log: ['fork'] }))
  .addNode('short', () => ({ log: ['short'] }))
  .addNode('long1', () => ({ log: ['long1'] }))
  .addNode('long2', () => ({ log: ['long2'] }))
  .addNode('last', ({ log }) => ({ log: [`last after ${log.length}`] }), { defer: true })
  .addEdge(START, 'fork')
  .addEdge('fork', 'short')
  .addEdge('fork', 'long1')
  .addEdge('long1', 'long2')
  .addEdge('short', 'last')
  .addEdge('long2', 'last')
  .addEdge('last', END)
  .compile();

const Narrow = Annotation.Root({ n: Annotation<number>() });
const narrowed = new StateGraph({ state: State, input: Narrow, output: Narrow })
  .addNode('double', ({ n }) => ({ n: n * 2, log: ['doubled'] }))
  .addEdge(START, 'double')
  .addEdge('double', END)
  .compile();

const joined = new StateGraph(State)
  .addNode('a', () => ({ log: ['a'] }))
  .addNode('b', () => ({ log: ['b'] }))
  .addNode('b2', () => ({ log: ['b2'] }))
  .addNode('c', () => ({ log: ['c'] }))
  .addEdge(START, 'a')
  .addEdge(START, 'b')
  .addEdge('b', 'b2')
  .addEdge(['a', 'b2'], 'c')
  .addEdge('c', END)
  .compile();

const graphs = { conditional, fanOut, commands, parentCommand, deferred, narrowed, joined };

let at: Installation;
beforeAll(async () => {
  at = await openInstallation();
  await at.startWorker(graphs);
});
afterAll(() => at.close());

/** Runs the graph on both sides and gives what perdure said, once they agree. */
async function onBoth(graph: keyof typeof graphs, input: JsonValue) {
  const [ours, plain] = await Promise.all([
    at.client.run({ graph, input }),
    new PlainThread(graphs[graph]).run(input),
  ]);
  expect(ending(ours)).toEqual(plain);
  return ours;
}

test('conditional edges go round and end as in plain LangGraph', async () => {
  const { values } = await onBoth('conditional', { n: 12, log: [] });
  expect(values).toEqual({ n: 3, log: ['look 12', 'even', 'look 6', 'even', 'look 3', 'odd'] });
});

test('a fan-out of a hundred Sends runs each once, in order, and joins', async () => {
  const { values } = await onBoth('fanOut', { n: 100, log: [] });
  expect(values).toEqual({ n: 100, log: Array.from({ length: 100 }, (_, i) => `work ${i}`) });
});

test.each([1, 2])('Command with goto, update and Send, path %i', async (n) => {
  expect((await onBoth('commands', { n, log: [] })).status).toBe('success');
});

test('a subgraph commands its parent', async () => {
  const { values } = await onBoth('parentCommand', { n: 1, log: [] });
  expect(values).toEqual({ n: 5, log: ['from inside', 'after 5'] });
});

test('a deferred node waits for the longest branch', async () => {
  expect((await onBoth('deferred', { n: 1, log: [] })).status).toBe('success');
});

test('input and output schemas of their own narrow what goes in and comes out', async () => {
  const { values } = await onBoth('narrowed', { n: 4 });
  expect(values).toEqual({ n: 8 });
});

test('an edge from several nodes waits for them all', async () => {
  expect((await onBoth('joined', { n: 0, log: ['in'] })).status).toBe('success');
});

test.each<[string, JsonValue, string]>([
  ['an empty object', {}, 'success'],
  ['null', null, 'error'],
  ['a channel that does not exist', { other: 1 }, 'success'],
  ['a string', 'text', 'error'],
])('input that is %s ends as in plain LangGraph', async (_, input, status) => {
  expect((await onBoth('joined', input)).status).toBe(status);
});

test('a second run goes on from the state of the first', async () => {
  const plain = new PlainThread(joined);
  await plain.run({ log: ['one'] });
  const first = await at.client.run({ graph: 'joined', input: { log: ['one'] } });
  const second = await at.client.run({
    graph: 'joined',
    thread_id: first.thread_id,
    input: { log: ['two'] },
  });
  expect(ending(second)).toEqual(await plain.run({ log: ['two'] }));
});
