import { randomUUID } from 'node:crypto';
import {
  Annotation,
  Command,
  END,
  interrupt,
  MemorySaver,
  Send,
  START,
  StateGraph,
} from '@langchain/langgraph';
import { HumanMessage } from '@langchain/core/messages';
import { PostgresSaver } from '@langchain/langgraph-checkpoint-postgres';
import {
  type BaseCheckpointSaver,
  type Checkpoint,
  emptyCheckpoint,
  uuid6,
} from '@langchain/langgraph-checkpoint';
import fc from 'fast-check';
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { PerdureSaver } from '../../src/checkpoint/saver.ts';
import type { Database } from '../../src/postgres/database.ts';
import { freshDatabase } from './fixture.ts';
import { richValue } from './rich-values.ts';

let database: Database;
let saver: PerdureSaver;
beforeAll(async () => {
  database = await freshDatabase();
  saver = new PerdureSaver(database);
});

const at = (thread: string, ns = '') => ({ configurable: { thread_id: thread, checkpoint_ns: ns } });
const checkpointOf = (values: Record<string, unknown>): Checkpoint => ({
  ...emptyCheckpoint(),
  id: uuid6(0),
  channel_values: values,
  channel_versions: Object.fromEntries(Object.keys(values).map((key) => [key, 1])),
});

async function chain(thread: string, length: number, ns = ''): Promise<string[]> {
  let config: Parameters<typeof saver.put>[0] = at(thread, ns);
  const ids: string[] = [];
  for (let step = 0; step < length; step += 1) {
    const checkpoint = checkpointOf({ v: 'same' });
    config = await saver.put(
      config,
      checkpoint,
      { source: 'loop', step, parents: {} },
      step === 0 ? { v: 1 } : {},
    );
    ids.unshift(checkpoint.id);
  }
  return ids;
}

async function idsOf(tuples: AsyncIterable<{ checkpoint: Checkpoint }>): Promise<string[]> {
  const ids = [];
  for await (const { checkpoint } of tuples) ids.push(checkpoint.id);
  return ids;
}

describe('list', () => {
  test('gives all pages, newest first, each with its values', async () => {
    const thread = randomUUID();
    const ids = await chain(thread, 75);
    const seen = [];
    for await (const tuple of saver.list(at(thread))) {
      expect(tuple.checkpoint.channel_values).toEqual({ v: 'same' });
      seen.push(tuple.checkpoint.id);
    }
    expect(seen).toEqual(ids);
  });

  test('reads no more than is asked for', async () => {
    const thread = randomUUID();
    const ids = await chain(thread, 30);
    const query = vi.spyOn(database.pool, 'query');
    for await (const tuple of saver.list(at(thread))) if (tuple.checkpoint.id === ids[3]) break;
    expect(query.mock.calls.length).toBe(1);
    query.mockRestore();
    expect(await idsOf(saver.list(at(thread), { limit: 25 }))).toEqual(ids.slice(0, 25));
    expect(await idsOf(saver.list(at(thread), { limit: 0 }))).toEqual([]);
    expect(
      await idsOf(saver.list(at(thread), { before: { configurable: { checkpoint_id: ids[9] } }, limit: 15 })),
    ).toEqual(ids.slice(10, 25));
    expect(await idsOf(saver.list(at(thread), { filter: { step: 7 } }))).toEqual([ids[22]]);
  });

  test('filters before it counts, by nested fields and by null too', async () => {
    const thread = randomUUID();
    const ids: string[] = [];
    for (let step = 0; step < 30; step += 1) {
      const metadata = {
        source: 'loop' as const,
        step,
        parents: {},
        tag: step % 3 === 0 ? null : { of: { three: step % 3 }, all: true },
      };
      const config = await saver.put(at(thread), checkpointOf({}), metadata, {});
      ids.unshift(String(config.configurable?.['checkpoint_id']));
    }
    const every = (rest: number) => ids.filter((_, i) => (29 - i) % 3 === rest);
    const found = (options: Parameters<PerdureSaver['list']>[1]) => idsOf(saver.list(at(thread), options));
    expect(await found({ filter: { tag: null } })).toEqual(every(0));
    expect(await found({ filter: { tag: { of: { three: 2 } } } })).toEqual(every(2));
    expect(await found({ filter: { tag: { of: { three: 1 } }, source: 'loop' }, limit: 4 })).toEqual(
      every(1).slice(0, 4),
    );
    expect(await found({ filter: { tag: { of: { three: 3 } } }, limit: 5 })).toEqual([]);
    expect(await found({ filter: { tag: undefined }, limit: 2 })).toEqual(ids.slice(0, 2));
    const before = { configurable: { checkpoint_id: every(1)[2] } };
    expect(await found({ filter: { tag: { of: { three: 1 } } }, before, limit: 3 })).toEqual(
      every(1).slice(3, 6),
    );
    await expect(found({ limit: -1 })).rejects.toMatchObject({ code: 'INPUT_INVALID' });
    await expect(found({ limit: 1.5 })).rejects.toMatchObject({ code: 'INPUT_INVALID' });
  });

  test('keeps namespaces apart when one is named', async () => {
    const thread = randomUUID();
    const root = await chain(thread, 12);
    const nested = await chain(thread, 12, 'sub:1');
    expect(await idsOf(saver.list(at(thread)))).toEqual(root);
    expect(await idsOf(saver.list(at(thread, 'sub:1')))).toEqual(nested);
    const all = await idsOf(saver.list({ configurable: { thread_id: thread } }));
    expect(all).toEqual([...root, ...nested].sort().toReversed());
  });

  test('does not give two tuples the same object', async () => {
    const thread = randomUUID();
    await saver.put(
      await saver.put(
        at(thread),
        checkpointOf({ v: { n: 1 } }),
        { source: 'loop', step: 0, parents: {} },
        { v: 1 },
      ),
      checkpointOf({ v: { n: 1 } }),
      { source: 'loop', step: 1, parents: {} },
      {},
    );
    const values = [];
    for await (const tuple of saver.list(at(thread))) values.push(tuple.checkpoint.channel_values['v']);
    expect(values).toEqual([{ n: 1 }, { n: 1 }]);
    expect(values[0]).not.toBe(values[1]);
  });
});

test('pending writes come in the order in which LangGraph applies them', async () => {
  const thread = randomUUID();
  const config = await saver.put(at(thread), checkpointOf({}), { source: 'loop', step: 0, parents: {} }, {});
  await saver.putWrites(
    config,
    [
      ['v', 3],
      ['w', 4],
    ],
    'a',
    '~__pregel_push, 0000000002',
  );
  await saver.putWrites(config, [['v', 2]], 'b', '~__pregel_push, 0000000001');
  await saver.putWrites(config, [['v', 1]], 'z');
  await saver.putWrites(config, [['v', 5]], 'c', '~𐐀');
  await saver.putWrites(config, [['v', 6]], 'd', '~\uffff');
  const tuple = await saver.getTuple(config);
  expect(tuple?.pendingWrites?.map(([, , value]) => value)).toEqual([1, 2, 3, 4, 6, 5]);
});

test('one query gives a checkpoint with all it has', async () => {
  const thread = randomUUID();
  await chain(thread, 3);
  const query = vi.spyOn(database.pool, 'query');
  await saver.getTuple(at(thread));
  expect(query.mock.calls.length).toBe(1);
  query.mockRestore();
});

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }),
  messages: Annotation<HumanMessage[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }),
  map: Annotation<Map<string, number>>(),
});

/** Three parallel questions, then an end. */
function threeQuestions(checkpointer: BaseCheckpointSaver) {
  return new StateGraph(State)
    .addNode('ask', ({ i }: { i: number }) => ({ log: [`${i}:${String(interrupt(`q${i}`))}`] }))
    .addNode('end', () => ({ log: ['end'], messages: [new HumanMessage({ content: 'bye', id: 'm' })] }))
    .addConditionalEdges(START, () => [0, 1, 2].map((i) => new Send('ask', { i })), ['ask'])
    .addEdge('ask', 'end')
    .addEdge('end', END)
    .compile({ checkpointer });
}

describe('a database that the shipped saver wrote', () => {
  test('opens: state, history and pending interrupts, which can be answered', async () => {
    const old = await freshDatabase({ migrated: false });
    const shipped = new PostgresSaver(old.pool, undefined, { schema: old.schema });
    await shipped.setup();
    const config = { configurable: { thread_id: randomUUID() } };
    const before = threeQuestions(shipped);
    await before.invoke(
      { messages: [new HumanMessage({ content: 'hi', id: 'h' })], map: new Map([['a', 1]]) },
      config,
    );
    const seen = async (graph: typeof before) => {
      const states = [];
      for await (const state of graph.getStateHistory(config))
        states.push([
          state.values,
          state.next,
          state.tasks.map((task) => [task.id, task.interrupts]),
          state.metadata,
        ]);
      return states;
    };
    const expected = await seen(before);
    const saverOfOld = new PerdureSaver(old);
    await saverOfOld.setup();
    const graph = threeQuestions(saverOfOld);
    expect(await seen(graph)).toEqual(expected);
    const state = await graph.getState(config);
    expect(state.values.messages[0]).toBeInstanceOf(HumanMessage);
    const resume = Object.fromEntries(state.tasks.map((task, i) => [task.interrupts[0]?.id ?? '', `a${i}`]));
    const result = await graph.invoke(new Command({ resume }), config);
    expect(result.log).toEqual(['0:a0', '1:a1', '2:a2', 'end']);
    // And back: the shipped saver still reads it.
    expect((await before.getState(config)).values).toEqual(result);
  });

  test('is refused with what to do until it has been set up', async () => {
    const old = await freshDatabase({ migrated: false });
    await new PostgresSaver(old.pool, undefined, { schema: old.schema }).setup();
    const put = new PerdureSaver(old).put(
      at(randomUUID()),
      checkpointOf({}),
      { source: 'loop', step: 0, parents: {} },
      {},
    );
    await expect(put).rejects.toMatchObject({ code: 'SCHEMA_NOT_READY' });
  });
});

test('parallel questions answered one by one end as they do in memory', async () => {
  const run = async (checkpointer: BaseCheckpointSaver) => {
    const graph = threeQuestions(checkpointer);
    const config = { configurable: { thread_id: 'questions' } };
    await graph.invoke({}, config);
    for (const wanted of ['q1', 'q0', 'q2']) {
      const { tasks } = await graph.getState(config);
      const id = tasks.flatMap((task) => task.interrupts).find((one) => one.value === wanted)?.id ?? '';
      await graph.invoke(new Command({ resume: { [id]: `a-${wanted}` } }), config);
    }
    return (await graph.getState(config)).values;
  };
  const result = await run(saver);
  expect(result).toEqual(await run(new MemorySaver()));
  expect(result.log).toEqual(['0:a-q0', '1:a-q1', '2:a-q2', 'end']);
});

describe('E17 in Postgres', () => {
  test('any value comes back equal from a checkpoint and from a write', async () => {
    await fc.assert(
      fc.asyncProperty(richValue, async (value) => {
        const config = await saver.put(
          at(randomUUID()),
          checkpointOf({ v: value }),
          { source: 'loop', step: 0, parents: {} },
          { v: 1 },
        );
        await saver.putWrites(config, [['v', value]], 'task');
        const tuple = await saver.getTuple(config);
        expect(tuple?.checkpoint.channel_values).toStrictEqual({ v: value });
        expect(tuple?.pendingWrites).toStrictEqual([['task', 'v', value]]);
      }),
      { numRuns: 100 },
    );
  });

  test('a graph that waited for an answer goes on with the same types', async () => {
    const Rich = Annotation.Root({ v: Annotation<Record<string, unknown>>(), ok: Annotation<boolean>() });
    const values = () => ({
      at: new Date(0),
      nan: Number.NaN,
      big: 10n,
      bytes: Buffer.from('x'),
      floats: new Float32Array([1]),
      map: new Map([['a', new Set([1])]]),
      error: new TypeError('t', { cause: new Error('c') }),
    });
    const build = () =>
      new StateGraph(Rich)
        .addNode('make', () => ({ v: values() }))
        .addNode('check', (state) => {
          interrupt({ when: state.v['at'] });
          return {
            ok:
              state.v['error'] instanceof TypeError &&
              state.v['big'] === 10n &&
              Buffer.isBuffer(state.v['bytes']),
          };
        })
        .addEdge(START, 'make')
        .addEdge('make', 'check')
        .addEdge('check', END)
        .compile({ checkpointer: new PerdureSaver(database) });
    const config = { configurable: { thread_id: randomUUID() } };
    await build().invoke({}, config);
    expect((await build().getState(config)).tasks[0]?.interrupts[0]?.value).toEqual({ when: new Date(0) });
    const { ok, v } = await build().invoke(new Command({ resume: 'yes' }), config);
    expect(ok).toBe(true);
    const { error, ...rest } = values();
    expect(v).toStrictEqual({ ...rest, error: expect.any(TypeError) as unknown });
    expect((v['error'] as Error).message).toBe(error.message);
  });
});
