import { randomUUID } from 'node:crypto';
import { Annotation, END, MemorySaver, START, StateGraph } from '@langchain/langgraph';
import { PostgresSaver } from '@langchain/langgraph-checkpoint-postgres';
import type { BaseCheckpointSaver } from '@langchain/langgraph-checkpoint';
import fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import { PerdureSaver } from '../../src/checkpoint/saver.ts';
import { nextVersion } from '../../src/checkpoint/versions.ts';
import type { Database } from '../../src/postgres/database.ts';
import { freshDatabase } from './fixture.ts';

const State = Annotation.Root({
  v: Annotation<string>(),
  log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }),
});

/** a -> b, both append to the log; what b appends shows the value it saw. */
function twoNodes(checkpointer: BaseCheckpointSaver) {
  return new StateGraph(State)
    .addNode('a', () => ({ log: ['a1'] }))
    .addNode('b', (state) => ({ log: [`b${state.v}`] }))
    .addEdge(START, 'a')
    .addEdge('a', 'b')
    .addEdge('b', END)
    .compile({ checkpointer });
}

async function checkpointBefore(graph: ReturnType<typeof twoNodes>, thread: string, node: string) {
  for await (const state of graph.getStateHistory({ configurable: { thread_id: thread } }))
    if (state.next.includes(node)) return state.config;
  throw new Error(`no checkpoint before ${node}`);
}

let database: Database;
let saver: PerdureSaver;
beforeAll(async () => {
  database = await freshDatabase();
  saver = new PerdureSaver(database);
});

describe('E1: a fork keeps its own values', () => {
  test('an edit before b runs b with the edit, and the first branch still reads as it was', async () => {
    const graph = twoNodes(saver);
    const thread = randomUUID();
    await graph.invoke({ v: '1' }, { configurable: { thread_id: thread } });
    const first = (await graph.getState({ configurable: { thread_id: thread } })).config;
    const edited = await graph.updateState(await checkpointBefore(graph, thread, 'b'), { v: 'ed' });
    expect((await graph.getState(edited)).next).toEqual(['b']);
    expect((await graph.invoke(null, edited)).log).toEqual(['a1', 'bed']);
    expect((await graph.getState(first)).values.log).toEqual(['a1', 'b1']);
  });

  test('three branches from one checkpoint each read their own', async () => {
    const graph = twoNodes(saver);
    const thread = randomUUID();
    await graph.invoke({ v: '1' }, { configurable: { thread_id: thread } });
    const before = await checkpointBefore(graph, thread, 'b');
    const ends = [];
    for (const v of ['x', 'y', 'z']) {
      await graph.invoke(null, await graph.updateState(before, { v }));
      ends.push((await graph.getState({ configurable: { thread_id: thread } })).config);
    }
    const logs = await Promise.all(ends.map(async (end) => (await graph.getState(end)).values.log));
    expect(logs).toEqual([
      ['a1', 'bx'],
      ['a1', 'by'],
      ['a1', 'bz'],
    ]);
  });

  test('a fork of a fork', async () => {
    const graph = twoNodes(saver);
    const thread = randomUUID();
    await graph.invoke({ v: '1' }, { configurable: { thread_id: thread } });
    const once = await graph.updateState(await checkpointBefore(graph, thread, 'b'), { v: 'once' });
    await graph.invoke(null, once);
    const twice = await graph.updateState(once, { v: 'twice' });
    expect((await graph.invoke(null, twice)).log).toEqual(['a1', 'btwice']);
    expect((await graph.getState(once)).values.v).toBe('once');
  });

  test('a replay without an edit runs b again and the old branch stays', async () => {
    const graph = twoNodes(saver);
    const thread = randomUUID();
    await graph.invoke({ v: '1' }, { configurable: { thread_id: thread } });
    const end = (await graph.getState({ configurable: { thread_id: thread } })).config;
    expect((await graph.invoke(null, await checkpointBefore(graph, thread, 'b'))).log).toEqual(['a1', 'b1']);
    expect((await graph.getState(end)).values.log).toEqual(['a1', 'b1']);
  });

  test('a fork of a thread that the shipped saver wrote', async () => {
    const old = twoNodes(new PostgresSaver(database.pool, undefined, { schema: database.schema }));
    const thread = randomUUID();
    await old.invoke({ v: '1' }, { configurable: { thread_id: thread } });
    const graph = twoNodes(saver);
    const edited = await graph.updateState(await checkpointBefore(graph, thread, 'b'), { v: 'ed' });
    expect((await graph.invoke(null, edited)).log).toEqual(['a1', 'bed']);
  });

  test('the history is the one of LangGraph in memory', async () => {
    const shape = async (checkpointer: BaseCheckpointSaver) => {
      const graph = twoNodes(checkpointer);
      await graph.invoke({ v: '1' }, { configurable: { thread_id: 'same' } });
      await graph.invoke(
        null,
        await graph.updateState(await checkpointBefore(graph, 'same', 'b'), { v: 'ed' }),
      );
      const seen = [];
      for await (const state of graph.getStateHistory({ configurable: { thread_id: 'same' } }))
        seen.push([state.values, state.next, state.metadata?.source, state.metadata?.step]);
      return seen;
    };
    expect(await shape(saver)).toEqual(await shape(new MemorySaver()));
  });
});

describe('versions', () => {
  test('increase along a branch, also from whole numbers', () => {
    fc.assert(
      fc.property(
        fc.option(fc.integer({ min: 0, max: 1_000_000 }), { nil: undefined }),
        fc.integer({ min: 1, max: 20 }),
        (start, steps) => {
          let current = start;
          for (let i = 0; i < steps; i += 1) {
            const next = nextVersion(current);
            expect(next).toBeGreaterThan(current ?? 0);
            expect(Math.floor(next)).toBe(Math.floor(current ?? 0) + 1);
            current = next;
          }
        },
      ),
    );
  });

  test('have the same text in JavaScript and in Postgres', async () => {
    const versions = [1, 0.5, 99_999]
      .map((from) => nextVersion(from))
      .concat(nextVersion(3, 1), nextVersion(3, 1_000_000_000));
    const { rows } = await database.query<{ text: string }>(
      `SELECT value AS text FROM jsonb_array_elements_text($1::jsonb)`,
      [JSON.stringify(versions)],
    );
    expect(rows.map((row) => row.text)).toEqual(versions.map(String));
  });

  test('differ between branches', () => {
    expect(new Set(Array.from({ length: 1_000 }, () => nextVersion(7))).size).toBe(1_000);
  });
});
