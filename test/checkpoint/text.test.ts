import { randomUUID } from 'node:crypto';
import { Annotation, END, interrupt, START, StateGraph } from '@langchain/langgraph';
import { type Checkpoint, emptyCheckpoint, uuid6 } from '@langchain/langgraph-checkpoint';
import fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import { PerdureSaver } from '../../src/checkpoint/saver.ts';
import type { Database } from '../../src/postgres/database.ts';
import { freshDatabase, rowsOf } from './fixture.ts';

let database: Database;
let saver: PerdureSaver;
beforeAll(async () => {
  database = await freshDatabase();
  saver = new PerdureSaver(database);
});

/** Half a pair at either end, NUL, our own escape character and what it writes, and the six characters as text. */
const AWKWARD = [
  'a\u0000b',
  '\ud800',
  'x\udfff',
  '\udfff\ud800',
  '😀',
  '\ue000',
  '\ue0000000',
  '\ue000d800',
  String.raw`\u0000`,
  String.raw`\ud800`,
  '\u0001',
];

const at = (thread: string, more: object = {}) => ({
  configurable: { thread_id: thread, checkpoint_ns: '', ...more },
});

async function store(values: Record<string, unknown>, metadata: Record<string, unknown> = {}) {
  const thread = randomUUID();
  const versions = Object.fromEntries(Object.keys(values).map((key) => [key, 1.25]));
  const checkpoint: Checkpoint = {
    ...emptyCheckpoint(),
    id: uuid6(0),
    channel_values: values,
    channel_versions: versions,
  };
  const config = await saver.put(
    at(thread),
    checkpoint,
    { source: 'loop', step: 0, parents: {}, ...metadata },
    versions,
  );
  return { thread, config };
}

describe('E16: any text comes back as it was', () => {
  test.each(AWKWARD)('%j in values, keys, channels, metadata, writes and task paths', async (text) => {
    const { config } = await store({ [text]: { [text]: text } }, { [text]: [text, { [text]: text }] });
    await saver.putWrites(config, [[text, { [text]: text }]], 'task', `~${text}`);
    const tuple = await saver.getTuple(config);
    expect(tuple?.checkpoint.channel_values).toEqual({ [text]: { [text]: text } });
    expect(tuple?.checkpoint.channel_versions).toEqual({ [text]: 1.25 });
    expect(tuple?.metadata).toMatchObject({ [text]: [text, { [text]: text }] });
    expect(tuple?.pendingWrites).toEqual([['task', text, { [text]: text }]]);
  });

  test.each(AWKWARD)('%j is found by a filter', async (text) => {
    const { thread } = await store({}, { mark: text, [text]: 1 });
    await store({}, { mark: `${text}?` });
    for (const filter of [{ mark: text }, { [text]: 1, mark: text }]) {
      const found = [];
      for await (const tuple of saver.list(at(thread), { filter })) found.push(tuple.metadata);
      expect(found).toEqual([{ source: 'loop', step: 0, parents: {}, mark: text, [text]: 1 }]);
    }
    const none = [];
    for await (const tuple of saver.list(at(thread), { filter: { mark: `${text}!` } })) none.push(tuple);
    expect(none).toEqual([]);
  });

  test('any strings at all, in metadata', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.dictionary(fc.string({ unit: 'binary' }), fc.string({ unit: 'binary' })),
        async (extra) => {
          const { config } = await store({}, { extra });
          expect((await saver.getTuple(config))?.metadata).toMatchObject({ extra });
        },
      ),
      { numRuns: 50 },
    );
  });

  test('metadata keeps its types', async () => {
    const extra = {
      at: new Date(0),
      nan: Number.NaN,
      zero: -0,
      big: 2n,
      none: undefined,
      map: new Map([['a', 1]]),
    };
    const { config } = await store({}, { extra });
    expect((await saver.getTuple(config))?.metadata).toStrictEqual({
      source: 'loop',
      step: 0,
      parents: {},
      extra,
    });
  });

  test('a node and an interrupt with such text', async () => {
    const State = Annotation.Root({
      log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }),
    });
    const graph = new StateGraph(State)
      .addNode('no\u0000de', () => ({ log: ['\ud800'] }))
      .addNode('ask', () => ({ log: [interrupt<string, string>('a\u0000b')] }))
      .addEdge(START, 'no\u0000de')
      .addEdge('no\u0000de', 'ask')
      .addEdge('ask', END)
      .compile({ checkpointer: saver });
    const config = { configurable: { thread_id: randomUUID() } };
    await graph.invoke({}, config);
    const state = await graph.getState(config);
    expect(state.values).toEqual({ log: ['\ud800'] });
    expect(state.tasks[0]?.interrupts[0]?.value).toBe('a\u0000b');
  });

  test.each(['a\u0000b', '\ud800'])('%j in an id is refused before any row is written', async (id) => {
    const checkpoint = { ...emptyCheckpoint(), id: uuid6(0) };
    const metadata = { source: 'loop' as const, step: 0, parents: {} };
    const refused = { code: 'INPUT_INVALID' };
    const thread = randomUUID();
    await expect(saver.put(at(id), checkpoint, metadata, {})).rejects.toMatchObject(refused);
    await expect(saver.put(at(thread), { ...checkpoint, id }, metadata, {})).rejects.toMatchObject(refused);
    await expect(
      saver.putWrites(at(thread, { checkpoint_id: id }), [['v', 1]], 'task'),
    ).rejects.toMatchObject(refused);
    await expect(saver.putWrites(at(thread, { checkpoint_id: 'c' }), [['v', 1]], id)).rejects.toMatchObject(
      refused,
    );
    await expect(saver.getTuple(at(id))).rejects.toMatchObject(refused);
    await expect(saver.deleteThread(id)).rejects.toMatchObject(refused);
    expect(await rowsOf(database, thread)).toEqual({ checkpoints: 0, blobs: 0, writes: 0 });
  });

  test('a value that cannot be stored is refused before any row is written', async () => {
    const thread = randomUUID();
    const versions = { good: 1, bad: 1 };
    const checkpoint = {
      ...emptyCheckpoint(),
      id: uuid6(0),
      channel_values: { good: 1, bad: [() => 1] },
      channel_versions: versions,
    };
    await expect(
      saver.put(at(thread), checkpoint, { source: 'loop', step: 0, parents: {} }, versions),
    ).rejects.toMatchObject({ code: 'VALUE_UNSERIALIZABLE', details: { channel: 'bad', path: '[0]' } });
    const odd = { source: 'loop', step: 0, parents: {}, f: Symbol('x') } as const;
    await expect(saver.put(at(thread), emptyCheckpoint(), odd, {})).rejects.toMatchObject({
      details: { channel: 'metadata', path: '.f' },
    });
    await expect(
      saver.putWrites(
        at(thread, { checkpoint_id: 'c' }),
        [
          ['v', 1],
          ['bad', { p: Promise.resolve() }],
        ],
        't',
      ),
    ).rejects.toMatchObject({ details: { channel: 'bad', path: '.p' } });
    expect(await rowsOf(database, thread)).toEqual({ checkpoints: 0, blobs: 0, writes: 0 });
  });
});
