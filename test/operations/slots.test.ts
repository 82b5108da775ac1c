import {
  Annotation,
  Command,
  INTERRUPT,
  interrupt,
  isInterrupted,
  MemorySaver,
  Send,
  START,
  StateGraph,
} from '@langchain/langgraph';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { listOperations, resolveOperation } from '../../src/operations/ledger-views.ts';
import { operation } from '../../src/operations/operation.ts';
import type { Database } from '../../src/postgres/database.ts';
import { dropLedger, gate, openLedger, TestThread } from './fixture.ts';

let database: Database;
beforeAll(async () => {
  database = await openLedger();
});
afterAll(() => dropLedger(database));

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }),
  item: Annotation<string>({ reducer: (_, b) => b, default: () => '' }),
});
const noRetryNoise = { initialInterval: 1, jitter: false, logWarning: false };

/** Ids without the thread's name. */
async function ids(thread: TestThread): Promise<string[]> {
  const all = await listOperations(database, 'default', { threadId: thread.threadId });
  return all.map((each) => each.operation_id.replace(thread.lineageRoot, 'T')).sort();
}

describe('without keys', () => {
  test('calls are counted in each task, and again from the start when the node is tried again', async () => {
    const thread = await TestThread.open(database);
    let tries = 0;
    let effects = 0;
    const call = (name: string): Promise<number> =>
      operation(name, { kind: 'exclusive', args: name }, () => {
        effects += 1;
        return effects;
      });
    const graph = new StateGraph(State)
      .addNode(
        'work',
        async () => {
          tries += 1;
          const done = [
            ...(await Promise.all([call('mail'), call('mail'), call('page')])),
            await call('mail'),
          ];
          if (tries < 3) throw new Error('after its effects');
          return { log: done.map(String) };
        },
        { retryPolicy: { maxAttempts: 3, ...noRetryNoise } },
      )
      .addEdge(START, 'work')
      .compile({ checkpointer: new MemorySaver() });
    const { log } = await thread.run(() => graph.invoke({}, thread.config));
    expect([tries, effects]).toEqual([3, 4]);
    expect([...log].sort()).toEqual(['1', '2', '3', '4']);
    expect(await ids(thread)).toEqual([
      'op:T:work@1:mail:0',
      'op:T:work@1:mail:1',
      'op:T:work@1:mail:2',
      'op:T:work@1:page:0',
    ]);
  });

  test('calls around a question keep their names when the node runs again', async () => {
    const thread = await TestThread.open(database);
    let effects = 0;
    const graph = new StateGraph(State)
      .addNode('work', async () => {
        const before = await operation('mail', { kind: 'exclusive' }, () => `mail ${(effects += 1)}`);
        const said = interrupt<string, string>('send another?');
        const after = await operation('mail', { kind: 'exclusive' }, () => `mail ${(effects += 1)}`);
        return { log: [before, said, after] };
      })
      .addEdge(START, 'work')
      .compile({ checkpointer: new MemorySaver() });
    await thread.run(() => graph.invoke({}, thread.config));
    const { log } = await thread.run(() => graph.invoke(new Command({ resume: 'yes' }), thread.config));
    expect(log).toEqual(['mail 1', 'yes', 'mail 2']);
    expect(await ids(thread)).toEqual(['op:T:work@1:mail:0', 'op:T:work@1:mail:1']);
  });

  test('an operation inside an operation is named after it', async () => {
    const thread = await TestThread.open(database);
    const graph = new StateGraph(State)
      .addNode('work', async () => {
        await operation('trip', { kind: 'pure' }, async () => {
          await operation('book', { kind: 'exclusive' }, () => 1);
          await operation('book', { kind: 'exclusive' }, () => 2);
        });
        return {};
      })
      .addEdge(START, 'work')
      .compile({ checkpointer: new MemorySaver() });
    await thread.run(() => graph.invoke({}, thread.config));
    expect(await ids(thread)).toEqual([
      'op-in:book:0:op:T:work@1:trip:0',
      'op-in:book:1:op:T:work@1:trip:0',
      'op:T:work@1:trip:0',
    ]);
  });
});

describe('the way to a task', () => {
  const sub = new StateGraph(State)
    .addNode('inner', async (state) => {
      const done = await operation(
        'mail',
        { kind: 'exclusive', args: state.item },
        () => `sent ${state.item}`,
      );
      return { log: [done] };
    })
    .addEdge(START, 'inner')
    .compile();

  const fanOut = () =>
    new StateGraph(State)
      .addNode('plan', () => ({}))
      .addNode('each', async (state) => ({ log: (await sub.invoke({ item: state.item, log: [] })).log }))
      .addNode('sub', sub)
      .addEdge(START, 'plan')
      .addConditionalEdges('plan', () => [
        ...['a', 'b', 'c'].map((item) => new Send('sub', { item, log: [] })),
        ...['d', 'e'].map((item) => new Send('each', { item, log: [] })),
      ])
      .compile({ checkpointer: new MemorySaver() });

  test('tells parallel Sends into subgraphs apart, whatever the ids of their tasks', async () => {
    const expected = [
      'op:T:each@2.3~inner@1:mail:0',
      'op:T:each@2.4~inner@1:mail:0',
      'op:T:sub@2.0~inner@1:mail:0',
      'op:T:sub@2.1~inner@1:mail:0',
      'op:T:sub@2.2~inner@1:mail:0',
    ];
    const thread = await TestThread.open(database);
    const stepOf = (ns: string): number | undefined => (ns === '' ? 2 : undefined);
    const first = await thread.run(() => fanOut().invoke({}, thread.config), { stepOf });
    expect([...first.log].sort()).toEqual(['sent a', 'sent b', 'sent c', 'sent d', 'sent e']);
    expect(await ids(thread)).toEqual(expected);
    // Another saver, so other checkpoint ids and task ids: the operations are the same, and none runs again.
    const second = await thread.run(() => fanOut().invoke({}, thread.config), { stepOf });
    expect(second.log).toEqual(first.log);
    expect(await ids(thread)).toEqual(expected);
  });

  test('is named by the task where the superstep is not known, so that no two tasks share an operation', async () => {
    const thread = await TestThread.open(database);
    const { log } = await thread.run(() => fanOut().invoke({}, thread.config));
    expect(new Set(log).size).toBe(5);
    expect(await ids(thread)).toHaveLength(5);
  });

  test('of a subgraph that is called twice by one node differs', async () => {
    const thread = await TestThread.open(database);
    const graph = new StateGraph(State)
      .addNode('twice', async () => {
        const first = await sub.invoke({ item: 'a', log: [] });
        const second = await sub.invoke({ item: 'b', log: [] });
        return { log: [...first.log, ...second.log] };
      })
      .addEdge(START, 'twice')
      .compile({ checkpointer: new MemorySaver() });
    const { log } = await thread.run(() => graph.invoke({}, thread.config), {
      stepOf: (ns) => (ns === '' ? 1 : undefined),
    });
    expect(log).toEqual(['sent a', 'sent b']);
    expect(await ids(thread)).toHaveLength(2);
  });

  test('has the superstep, so that a loop and a second run are other operations', async () => {
    const thread = await TestThread.open(database);
    const graph = new StateGraph(State)
      .addNode('loop', async () => ({ log: [await operation('mail', { kind: 'exclusive' }, () => 'sent')] }))
      .addEdge(START, 'loop')
      .addConditionalEdges('loop', (state) => (state.log.length % 2 === 1 ? 'loop' : '__end__'))
      .compile({ checkpointer: new MemorySaver() });
    await thread.run(() => graph.invoke({}, thread.config));
    await thread.run(() => graph.invoke({}, thread.config));
    expect(await ids(thread)).toEqual([
      'op:T:loop@1:mail:0',
      'op:T:loop@2:mail:0',
      'op:T:loop@5:mail:0',
      'op:T:loop@6:mail:0',
    ]);
  });

  test('is the same on a fork of the lineage, which gets the recorded result', async () => {
    const origin = await TestThread.open(database);
    const fork = await TestThread.open(database, `${origin.threadId}-fork`, origin.threadId);
    let effects = 0;
    const graph = () =>
      new StateGraph(State)
        .addNode('work', async () => ({
          log: [await operation('mail', { kind: 'exclusive' }, () => `sent ${(effects += 1)}`)],
        }))
        .addEdge(START, 'work')
        .compile({ checkpointer: new MemorySaver() });
    await origin.run(() => graph().invoke({}, origin.config));
    expect((await fork.run(() => graph().invoke({}, fork.config))).log).toEqual(['sent 1']);
    expect(effects).toBe(1);
    expect(await listOperations(database, 'default', { threadId: fork.threadId })).toHaveLength(1);
  });
});

test('a node that timed out is told to stop, and its retry waits for what is still at work', async () => {
  const thread = await TestThread.open(database);
  const finish = gate();
  let tries = 0;
  let effects = 0;
  let stopped = false;
  const graph = new StateGraph(State)
    .addNode(
      'work',
      async () => {
        tries += 1;
        if (tries === 2) finish.open();
        const sent = await operation('mail', { kind: 'idempotent' }, async ({ signal }) => {
          effects += 1;
          await finish.opened;
          stopped = signal.aborted;
          return 'sent';
        });
        return { log: [sent] };
      },
      { timeout: 500, retryPolicy: { maxAttempts: 2, ...noRetryNoise } },
    )
    .addEdge(START, 'work')
    .compile({ checkpointer: new MemorySaver() });
  const { log } = await thread.run(() => graph.invoke({}, thread.config));
  expect({ log, tries, effects, stopped }).toEqual({ log: ['sent'], tries: 2, effects: 1, stopped: true });
});

test('a question of a node keeps its number while a person is asked about an operation', async () => {
  const thread = await TestThread.open(database);
  let tries = 0;
  const graph = new StateGraph(State)
    .addNode('work', async () => {
      const first = interrupt<string, string>('first?');
      const done = await operation('mail', { kind: 'exclusive' }, () => {
        tries += 1;
        if (tries === 1) throw new Error('the reply was lost');
        return 'sent';
      });
      const second = interrupt<string, string>('second?');
      return { log: [first, done, second] };
    })
    .addEdge(START, 'work')
    .compile({ checkpointer: new MemorySaver() });
  const begun = await thread.run(() => graph.invoke({}, thread.config));
  const asked = await thread.run(() => graph.invoke(answer(begun, 'one'), thread.config));
  expect(questionOf(asked)).toMatch(/^op-/);
  const [unknown] = await listOperations(database, 'default', { threadId: thread.threadId });
  await resolveOperation(database, 'default', unknown?.operation_id ?? '', { retry: true }, 'user:mira');
  const again = await thread.run(() => graph.invoke(null, thread.config));
  const { log } = await thread.run(() => graph.invoke(answer(again, 'two'), thread.config));
  expect(log).toEqual(['one', 'sent', 'two']);
});

function questionOf(state: unknown): string {
  return (isInterrupted(state) && state[INTERRUPT][0]?.id) || '';
}

function answer(state: unknown, value: string): Command<unknown, { item: string }, 'work'> {
  return new Command({ resume: { [questionOf(state)]: value } });
}
