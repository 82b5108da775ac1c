import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { Annotation, Command, END, interrupt, Send, START, StateGraph } from '@langchain/langgraph';
import { type Checkpoint, emptyCheckpoint, uuid6 } from '@langchain/langgraph-checkpoint';
import { afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { PerdureSaver } from '../../src/checkpoint/saver.ts';
import { nextNodesOf } from '../../src/graph/next-nodes.ts';
import type { Database } from '../../src/postgres/database.ts';
import { freshDatabase, makeThread, rowsOf, takeAttempt } from './fixture.ts';

let database: Database;
let saver: PerdureSaver;
beforeAll(async () => {
  database = await freshDatabase();
  saver = new PerdureSaver(database);
});
afterEach(() => void vi.restoreAllMocks());

const metadata = (step: number) => ({ source: 'loop' as const, step, parents: {} });
const at = (thread: string, id?: string, ns = '') => ({
  configurable: { thread_id: thread, checkpoint_ns: ns, ...(id ? { checkpoint_id: id } : {}) },
});
const checkpointOf = (v: unknown): Checkpoint => ({
  ...emptyCheckpoint(),
  id: uuid6(1),
  channel_values: { v },
  channel_versions: { v: 1 },
});

/** Statements sent from now on. */
function countStatements(): () => number {
  const query = vi.spyOn(database.pool, 'query');
  return () => query.mock.calls.length;
}

async function planned(tasks: string[]) {
  const thread = await makeThread(database);
  const attempt = await takeAttempt(saver, database, thread, { nextNodes: () => tasks });
  const first = checkpointOf(0);
  await attempt.put(at(thread), first, metadata(0), { v: 1 });
  return { thread, attempt, first };
}

describe('the writes of the last task', () => {
  test('travel with the checkpoint that follows', async () => {
    const { thread, attempt, first } = await planned(['a', 'b']);
    await attempt.putWrites(at(thread, first.id), [['v', 'a']], 'task-a');
    const statements = countStatements();
    const last = attempt.putWrites(at(thread, first.id), [['v', 'b']], 'task-b');
    await Promise.all([attempt.put(at(thread, first.id), checkpointOf(1), metadata(1), { v: 2 }), last]);
    expect(statements()).toBe(1);
    expect((await saver.getTuple(at(thread, first.id)))?.pendingWrites).toEqual([
      ['task-a', 'v', 'a'],
      ['task-b', 'v', 'b'],
    ]);
  });

  test('are stored on their own when no checkpoint follows', async () => {
    const { thread, attempt, first } = await planned(['a']);
    await attempt.putWrites(at(thread, first.id), [['v', 'a']], 'task-a');
    expect((await saver.getTuple(at(thread)))?.pendingWrites).toEqual([['task-a', 'v', 'a']]);
  });

  test('do not wait while a sibling still runs', async () => {
    const { thread, attempt, first } = await planned(['a', 'b']);
    const statements = countStatements();
    const stored = attempt.putWrites(at(thread, first.id), [['v', 'a']], 'task-a');
    await Promise.resolve()
      .then(() => undefined)
      .then(() => undefined)
      .then(() => undefined)
      .then(() => undefined)
      .then(() => undefined);
    expect(statements()).toBe(1);
    await stored;
  });

  test.each<[string, string, unknown]>([
    ['an interrupt', '__interrupt__', [{ id: 'i', value: 1 }]],
    ['an error', '__error__', { message: 'x' }],
    ['an answer', '__resume__', ['x']],
    ['the result of a functional task', '__return__', 1],
  ])('do not wait when they hold %s', async (_, channel, value) => {
    const { thread, attempt, first } = await planned(['a']);
    const stored = attempt.putWrites(at(thread, first.id), [[channel, value]], 'task-a');
    await attempt.put(at(thread, first.id), checkpointOf(1), metadata(1), { v: 2 });
    await stored;
    expect((await saver.getTuple(at(thread, first.id)))?.pendingWrites).toEqual([['task-a', channel, value]]);
  });

  test('are lost neither for the checkpoint nor for themselves when the thread was taken over', async () => {
    const { thread, attempt, first } = await planned(['a']);
    await takeAttempt(saver, database, thread);
    const before = await rowsOf(database, thread);
    const last = attempt.putWrites(at(thread, first.id), [['v', 'a']], 'task-a');
    const results = await Promise.allSettled([
      last,
      attempt.put(at(thread, first.id), checkpointOf(1), metadata(1), { v: 2 }),
    ]);
    expect(results).toEqual(
      [1, 2].map(() => ({
        status: 'rejected',
        reason: expect.objectContaining({ code: 'FENCE_STALE' }) as unknown,
      })),
    );
    expect(await rowsOf(database, thread)).toEqual(before);
  });

  test('are stored on their own when the checkpoint holds what cannot be stored', async () => {
    const { thread, attempt, first } = await planned(['a']);
    const last = attempt.putWrites(at(thread, first.id), [['v', 'a']], 'task-a');
    await expect(
      attempt.put(
        at(thread, first.id),
        checkpointOf(() => 1),
        metadata(1),
        { v: 2 },
      ),
    ).rejects.toMatchObject({ code: 'VALUE_UNSERIALIZABLE', details: { channel: 'v', path: '' } });
    await last;
    expect((await saver.getTuple(at(thread)))?.pendingWrites).toEqual([['task-a', 'v', 'a']]);
  });
});

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }),
});

describe('real graphs', () => {
  const runs: string[] = [];

  function fanOut(pause: (i: number) => Promise<void> = async () => {}) {
    return new StateGraph(State)
      .addNode('worker', async ({ i }: { i: number }) => {
        runs.push(`worker${i}`);
        await pause(i);
        return { log: [`w${i}`] };
      })
      .addNode('end', () => ({ log: ['end'] }))
      .addConditionalEdges(START, () => [0, 1, 2].map((i) => new Send('worker', { i })), ['worker'])
      .addEdge('worker', 'end')
      .addEdge('end', END);
  }

  async function attemptFor(thread: string, graph: Parameters<typeof nextNodesOf>[0]) {
    return takeAttempt(saver, database, thread, { nextNodes: nextNodesOf(graph) });
  }

  test('a chain costs one statement a superstep', async () => {
    const builder = new StateGraph(State)
      .addNode('a', () => ({ log: ['a'] }))
      .addNode('b', () => ({ log: ['b'] }));
    const plain = builder.addEdge(START, 'a').addEdge('a', 'b').addEdge('b', END);
    const thread = await makeThread(database);
    const attempt = await attemptFor(thread, plain.compile());
    const statements = countStatements();
    expect(
      await plain
        .compile({ checkpointer: attempt })
        .invoke({}, { configurable: { thread_id: thread }, durability: 'sync' }),
    ).toEqual({ log: ['a', 'b'] });
    // To load, for the input's two checkpoints, and for a and b.
    expect(statements()).toBe(5);
    const tuples = [];
    for await (const tuple of saver.list(at(thread))) tuples.push(tuple);
    expect(
      tuples
        .map((tuple) => tuple.metadata)
        .map((m) => [m?.step, (m as { resume_node?: string }).resume_node]),
    ).toEqual([
      [2, null],
      [1, 'b'],
      [0, 'a'],
      [-1, '__start__'],
    ]);
    expect(tuples.map((tuple) => tuple.pendingWrites?.length)).toEqual([0, 1, 2, 1]);
  });

  test('what finished before the process died is not run again', async () => {
    const thread = await makeThread(database);
    const dying = new Set([2]);
    const graph = fanOut(async (i) => {
      if (dying.has(i)) await new Promise(() => {});
    });
    const first = await attemptFor(thread, graph.compile());
    runs.length = 0;
    const abort = new AbortController();
    const dead = graph
      .compile({ checkpointer: first })
      .invoke({}, { configurable: { thread_id: thread }, durability: 'sync', signal: abort.signal });
    dead.catch(() => undefined);
    while (
      (await saver.getTuple(at(thread)))?.pendingWrites?.filter(([, channel]) => channel === 'log').length !==
      2
    )
      await delay(5);
    dying.clear();
    const second = await attemptFor(thread, graph.compile());
    const result = await graph
      .compile({ checkpointer: second })
      .invoke(null, { configurable: { thread_id: thread }, durability: 'sync' });
    expect(result.log).toEqual(['w0', 'w1', 'w2', 'end']);
    expect(runs.sort()).toEqual(['worker0', 'worker1', 'worker2', 'worker2']);
    abort.abort();
    await expect(dead).rejects.toThrow();
  });

  test('an interrupt in a subgraph is noted with the innermost task, and its answer is found', async () => {
    const inner = new StateGraph(State)
      .addNode('ask', () => ({ log: [interrupt<string, string>('sure?')] }))
      .addEdge(START, 'ask')
      .addEdge('ask', END)
      .compile();
    const graph = new StateGraph(State).addNode('outer', inner).addEdge(START, 'outer').addEdge('outer', END);
    const thread = await makeThread(database);
    const attempt = await attemptFor(thread, graph.compile());
    const config = { configurable: { thread_id: thread }, durability: 'sync' as const };
    await graph.compile({ checkpointer: attempt }).invoke({}, config);
    const [asked] = [...attempt.asked];
    expect(attempt.asked.size).toBe(1);
    if (!asked) throw new Error('nothing asked');
    const [id, origin] = asked;
    expect(origin.checkpointNs).toMatch(/^outer:/);
    expect(await attempt.isAsked(id, origin)).toBe(true);
    expect(await attempt.isAsked('other', origin)).toBe(false);
    const second = await attemptFor(thread, graph.compile());
    expect(
      await graph.compile({ checkpointer: second }).invoke(new Command({ resume: { [id]: 'yes' } }), config),
    ).toEqual({ log: ['yes'] });
    expect(await second.isAsked(id, origin)).toBe(false);
  });

  test('fifty threads at once on a pool of ten', async () => {
    const graph = fanOut();
    const results = await Promise.all(
      Array.from({ length: 50 }, async () => {
        const thread = await makeThread(database, randomUUID());
        const attempt = await attemptFor(thread, graph.compile());
        return graph
          .compile({ checkpointer: attempt })
          .invoke({}, { configurable: { thread_id: thread }, durability: 'sync' });
      }),
    );
    for (const result of results) expect(result.log).toEqual(['w0', 'w1', 'w2', 'end']);
  });

  test('a value that cannot be stored ends the run with channel and path, and nothing of it is stored', async () => {
    const graph = new StateGraph(State)
      .addNode('a', () => ({ log: ['x', (() => 1) as unknown as string] }))
      .addEdge(START, 'a')
      .addEdge('a', END);
    const thread = await makeThread(database);
    const attempt = await attemptFor(thread, graph.compile());
    const run = graph
      .compile({ checkpointer: attempt })
      .invoke({}, { configurable: { thread_id: thread }, durability: 'sync' });
    await expect(run).rejects.toMatchObject({
      code: 'VALUE_UNSERIALIZABLE',
      details: { channel: 'log', path: '[1]' },
    });
    expect(attempt.failure).toMatchObject({ code: 'VALUE_UNSERIALIZABLE' });
    expect((await saver.getTuple(at(thread)))?.metadata?.step).toBe(0);
  });
});

test.each(['sync', 'async', 'exit'] as const)(
  'every durability ends with the same state: %s',
  async (durability) => {
    const inner = new StateGraph(State)
      .addNode('deep', () => ({ log: ['deep'] }))
      .addEdge(START, 'deep')
      .addEdge('deep', END)
      .compile();
    const builder = new StateGraph(State)
      .addNode('a', () => ({ log: ['a'] }))
      .addNode('sub', inner)
      .addNode('b', () => ({ log: [interrupt<string, string>('?')] }))
      .addEdge(START, 'a')
      .addEdge('a', 'sub')
      .addEdge('sub', 'b')
      .addEdge('b', END);
    const thread = await makeThread(database);
    const config = { configurable: { thread_id: thread }, durability };
    const next = { nextNodes: nextNodesOf(builder.compile()) };
    await builder
      .compile({ checkpointer: await takeAttempt(saver, database, thread, next) })
      .invoke({}, config);
    const second = await takeAttempt(saver, database, thread, next);
    const result = await builder
      .compile({ checkpointer: second })
      .invoke(new Command({ resume: 'b' }), config);
    expect(result.log).toEqual(['a', 'a', 'deep', 'b']);
    const { rows } = await database.query<{ head: string }>(
      `SELECT head_checkpoint_id AS head FROM ${database.table('threads')} WHERE thread_id = $1`,
      [thread],
    );
    expect((await saver.getTuple(at(thread)))?.checkpoint.id).toBe(rows[0]?.head);
    expect(second.head).toBe(rows[0]?.head);
  },
);
