import { randomBytes, randomUUID } from 'node:crypto';
import { Document } from '@langchain/core/documents';
import {
  AIMessage,
  type BaseMessage,
  HumanMessage,
  RemoveMessage,
  ToolMessage,
} from '@langchain/core/messages';
import { Annotation, END, MessagesAnnotation, Send, START, StateGraph } from '@langchain/langgraph';
import { PostgresSaver } from '@langchain/langgraph-checkpoint-postgres';
import { emptyCheckpoint, type Checkpoint } from '@langchain/langgraph-checkpoint';
import fc from 'fast-check';
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { PerdureSaver } from '../../src/checkpoint/saver.ts';
import type { Database } from '../../src/postgres/database.ts';
import { freshDatabase, makeThread, rowsOf, takeAttempt } from './fixture.ts';

let database: Database;
let saver: PerdureSaver;
beforeAll(async () => {
  database = await freshDatabase();
  saver = new PerdureSaver(database);
});

const METADATA = { source: 'loop', step: 0, parents: {} } as const;
let made = 0;

/** Puts one value of the channel `c` on a thread, and gives the config to read it by. */
async function put(into: Pick<PerdureSaver, 'put'>, thread: string, value: unknown, parent?: string) {
  made += 1;
  const id = `1f000000-0000-6000-8000-${String(made).padStart(12, '0')}`;
  const version = into instanceof PerdureSaver ? made : made + 0.5;
  const checkpoint: Checkpoint = {
    ...emptyCheckpoint(),
    id,
    channel_values: { c: value },
    channel_versions: { c: version },
  };
  return into.put(
    { configurable: { thread_id: thread, checkpoint_ns: '', ...(parent ? { checkpoint_id: parent } : {}) } },
    checkpoint,
    METADATA,
    { c: version },
  );
}

/** As somebody reads it who has seen nothing before. */
async function readAfresh(config: Parameters<PerdureSaver['getTuple']>[0]): Promise<unknown> {
  return (await new PerdureSaver(database).getTuple(config))?.checkpoint.channel_values['c'];
}

async function elementsOf(thread: string): Promise<{ count: number; bytes: number }> {
  const { rows } = await database.query<{ count: number; bytes: number }>(
    `SELECT count(*)::int AS count, coalesce(sum(length(blob)), 0)::int AS bytes
     FROM ${database.table('checkpoint_elements')} WHERE thread_id = $1`,
    [thread],
  );
  return rows[0] ?? { count: 0, bytes: 0 };
}

const noise = (bytes: number) => randomBytes(bytes / 2).toString('hex');
const messages = (count: number, size = 200) =>
  Array.from({ length: count }, (_, i) => new HumanMessage({ id: `m${i}`, content: `${i} ${noise(size)}` }));

describe('what is stored apart', () => {
  test.each<[string, unknown]>([
    ['a long string', noise(5_000)],
    ['a long string with NUL and half a surrogate pair', `\u0000${noise(2_000)}\ud800 漢字 🎉`],
    ['a long list of messages', messages(300)],
    ['a list of numbers', Array.from({ length: 2_000 }, (_, i) => i / 7)],
    ['a list of short strings', Array.from({ length: 3_000 }, (_, i) => `line ${i}`)],
    ['a list of lists', Array.from({ length: 40 }, (_, i) => messages(i, 20))],
    [
      'undefined, null, NaN and dates in a long list',
      [undefined, null, Number.NaN, new Date(7), ...messages(20)],
    ],
    ['a nested object', { deep: { er: { text: noise(3_000), list: messages(30) } }, n: -0 }],
    [
      'a large object in an object',
      { a: Object.fromEntries(Array.from({ length: 200 }, (_, i) => [`k${i}`, i])) },
    ],
    ['our own mark in user data', messages(9).map((_, i) => ({ $perdure: 'ref', v: i, text: noise(400) }))],
    [
      'documents',
      messages(20).map(
        (m) => new Document({ pageContent: m.content as string, metadata: { x: noise(2_000) } }),
      ),
    ],
    ['maps and sets', new Map([['k', new Set(messages(20).map((m) => ({ m, long: noise(1_100) })))]])],
    [
      'Sends that carry the whole state',
      [1, 2, 3].map((i) => new Send('tools', { messages: messages(50), i })),
    ],
    ['binary data', [Buffer.from(noise(4_000)), ...messages(10)]],
  ])('%s comes back equal', async (_name, value) => {
    const thread = randomUUID();
    const config = await put(saver, thread, value);
    expect(await readAfresh(config)).toEqual(value);
    expect((await elementsOf(thread)).count).toBeGreaterThan(0);
    // And from this process's memory of it.
    for (let i = 0; i < 2; i += 1)
      expect((await saver.getTuple(config))?.checkpoint.channel_values['c']).toEqual(value);
  });

  test('two readers never get the same object', async () => {
    const config = await put(saver, randomUUID(), messages(40));
    const read = async () =>
      (await saver.getTuple(config))?.checkpoint.channel_values['c'] as (BaseMessage & { content: string })[];
    const first = await read();
    Object.assign(first[0] ?? {}, { content: 'changed by a reader' });
    expect((await read())[0]?.content).not.toBe('changed by a reader');
  });

  test('a value is refused with the channel and the path, however deep in a list', async () => {
    const list = [...messages(30), { inner: [() => 1] }];
    await expect(put(saver, randomUUID(), list)).rejects.toMatchObject({
      code: 'VALUE_UNSERIALIZABLE',
      details: { channel: 'c', path: '[30].inner[0]' },
    });
    const cycle: unknown[] = messages(30);
    cycle.push({ cycle });
    await expect(put(saver, randomUUID(), cycle)).rejects.toMatchObject({ code: 'VALUE_UNSERIALIZABLE' });
  });

  test('small values are stored as before, readable by the shipped saver', async () => {
    const thread = randomUUID();
    const value = {
      list: [1, 2, 3],
      text: 'short',
      messages: [new AIMessage({ id: 'a', content: 'hello' })],
    };
    const config = await put(saver, thread, value);
    expect((await elementsOf(thread)).count).toBe(0);
    const shipped = new PostgresSaver(database.pool, undefined, { schema: database.schema });
    expect((await shipped.getTuple(config))?.checkpoint.channel_values['c']).toEqual(value);
  });

  test('what an earlier version stored whole is read, and taken apart with the next change', async () => {
    const thread = randomUUID();
    const old = new PostgresSaver(database.pool, undefined, { schema: database.schema });
    const graph = (checkpointer: PostgresSaver) =>
      new StateGraph(MessagesAnnotation)
        .addNode('model', () => ({ messages: [new AIMessage({ content: noise(300) })] }))
        .addEdge(START, 'model')
        .addEdge('model', END)
        .compile({ checkpointer });
    const config = { configurable: { thread_id: thread } };
    const before = await graph(old).invoke({ messages: messages(30) }, config);
    expect((await elementsOf(thread)).count).toBe(0);
    const after = await graph(saver).invoke({ messages: [new HumanMessage('more')] }, config);
    expect(after.messages.slice(0, 31)).toEqual(before.messages);
    expect((await elementsOf(thread)).count).toBeGreaterThan(30);
    expect((await graph(new PerdureSaver(database) as never).getState(config)).values).toEqual(after);
  });
});

describe('lists that change', () => {
  const item = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 300 }),
    fc.integer(),
    fc.record({ id: fc.integer(), text: fc.string({ maxLength: 200 }) }),
    fc
      .integer({ min: 0, max: 9 })
      .map((i) => new HumanMessage({ id: String(i), content: String(i).repeat(150) })),
    fc.integer({ min: 0, max: 9 }).map((i) => String(i).repeat(1_500)),
  );
  const change = fc.oneof(
    fc.record({ kind: fc.constant('append' as const), items: fc.array(item, { maxLength: 30 }) }),
    fc.record({ kind: fc.constant('set' as const), at: fc.nat(), item }),
    fc.record({ kind: fc.constant('remove' as const), at: fc.nat() }),
    fc.record({ kind: fc.constant('move' as const), at: fc.nat() }),
    fc.record({ kind: fc.constant('mutate' as const), at: fc.nat(), text: fc.string({ maxLength: 200 }) }),
    fc.record({ kind: fc.constant('back' as const), to: fc.nat() }),
  );

  test('come back equal after appends, edits, removals, moves and forks', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(item, { maxLength: 150 }),
        fc.array(change, { minLength: 1, maxLength: 12 }),
        async (start, changes) => {
          const thread = randomUUID();
          const kept: { config: Awaited<ReturnType<typeof put>>; value: unknown[]; live: unknown[] }[] = [];
          let list: unknown[] = start;
          const store = async () => {
            const value = structuredCloneOf(list);
            kept.push({ config: await put(saver, thread, list), value, live: list });
          };
          await store();
          for (const step of changes) {
            const at = 'at' in step && list.length > 0 ? step.at % list.length : 0;
            if (step.kind === 'append') list = list.concat(step.items);
            else if (step.kind === 'set') list = list.length > 0 ? list.with(at, step.item) : [step.item];
            else if (step.kind === 'remove') list = list.filter((_, i) => i !== at);
            else if (step.kind === 'move') list = [...list.slice(at), ...list.slice(0, at)];
            else if (step.kind === 'back') list = kept[step.to % kept.length]?.live ?? [];
            else {
              const target = list[at];
              if (target instanceof HumanMessage) target.content = step.text;
              else if (typeof target === 'object' && target !== null)
                (target as { text: string }).text = step.text;
            }
            await store();
          }
          for (const { config, value } of kept) expect(await readAfresh(config)).toEqual(value);
        },
      ),
      { numRuns: 25 },
    );
  });

  test('an append stores what is new, and a fork shares the rest', async () => {
    const thread = randomUUID();
    const list = messages(1_000);
    const base = await put(saver, thread, list);
    const before = await elementsOf(thread);
    const parent = base.configurable?.['checkpoint_id'] as string;
    await put(saver, thread, [...list, new AIMessage({ id: 'x', content: noise(300) })], parent);
    const appended = await elementsOf(thread);
    expect(appended.bytes - before.bytes).toBeLessThan(1_000);
    const edited = list.with(500, new HumanMessage({ id: 'm500', content: noise(300) }));
    const fork = await put(new PerdureSaver(database), thread, edited, parent);
    expect((await elementsOf(thread)).bytes - appended.bytes).toBeLessThan(3_000);
    expect(await readAfresh(fork)).toEqual(edited);
    expect(await readAfresh(base)).toEqual(list);
  });
});

/** Of what the property makes: messages, plain objects and primitives. */
function structuredCloneOf(list: readonly unknown[]): unknown[] {
  return list.map((one) =>
    one instanceof HumanMessage
      ? new HumanMessage({ id: one.id as string, content: one.content })
      : structuredClone(one),
  );
}

/** But for the arguments of the constructor, which a message keeps as they once were. */
const fieldsOf = (message: ToolMessage | undefined) =>
  Object.entries(message ?? {}).filter(([name]) => name !== 'lc_kwargs');

describe('objects that change in place', () => {
  test.each<[string, (message: ToolMessage) => void]>([
    ['content', (message) => (message.content = 'short now')],
    ['a nested property', (message) => (message.response_metadata['inner'] = { deep: [1, 2, 4] })],
    ['deep inside', (message) => ((message.response_metadata['inner'] as { deep: number[] }).deep[2] = 9)],
    ['a new property', (message) => Object.assign(message, { note: 'new' })],
    ['a removed property', (message) => delete message.response_metadata['inner']],
    ['the order of properties', (message) => (message.response_metadata = { b: 1, a: 2 })],
    ['an id, as the reducer of messages gives it', (message) => message._updateId('given later')],
  ])('%s: the change is stored, the earlier checkpoint stays', async (_name, mutate) => {
    const thread = randomUUID();
    const message = new ToolMessage({
      tool_call_id: 'c1',
      content: noise(2_000),
      response_metadata: { inner: { deep: [1, 2, 3] }, b: 1, a: 2 },
    });
    const list = [message, ...messages(20)];
    const first = await put(saver, thread, list);
    const before = (await readAfresh(first)) as unknown[];
    mutate(message);
    const second = await put(saver, thread, [...list]);
    expect(await readAfresh(first)).toEqual(before);
    expect(fieldsOf(((await readAfresh(second)) as ToolMessage[])[0])).toEqual(fieldsOf(message));
  });

  test('what was read counts as unchanged only until it is changed', async () => {
    const thread = randomUUID();
    const attempt = await takeAttempt(saver, database, await makeThread(database, thread));
    const first = await put(attempt, thread, messages(30));
    const read = (await attempt.getTuple(first))?.checkpoint.channel_values['c'] as HumanMessage[];
    Object.assign(read[3] ?? {}, { content: 'changed after it was read' });
    const second = await put(attempt, thread, read, first.configurable?.['checkpoint_id'] as string);
    expect(((await readAfresh(second)) as HumanMessage[])[3]?.content).toBe('changed after it was read');
    expect(((await readAfresh(first)) as HumanMessage[])[3]?.content).not.toBe('changed after it was read');
  });

  test('a message whose id came after its write is stored with its content once', async () => {
    const thread = randomUUID();
    const content = noise(20_000);
    const graph = new StateGraph(MessagesAnnotation)
      .addNode('tools', () => ({ messages: [new ToolMessage({ tool_call_id: 'c', content })] }))
      .addEdge(START, 'tools')
      .addEdge('tools', END)
      .compile({ checkpointer: saver });
    await graph.invoke({ messages: messages(3) }, { configurable: { thread_id: thread } });
    const { rows } = await database.query<{ holding: number }>(
      `SELECT count(*)::int AS holding FROM ${database.table('checkpoint_elements')} WHERE thread_id = $1 AND length(blob) >= 20000`,
      [thread],
    );
    expect(rows).toEqual([{ holding: 1 }]);
    const state = await graph.getState({ configurable: { thread_id: thread } });
    expect(state.values.messages.at(-1)).toMatchObject({ content, id: expect.any(String) });
  });
});

describe('what counts as stored', () => {
  test('nothing of a statement that the fence refused', async () => {
    const thread = await makeThread(database);
    const list = messages(30);
    const old = await takeAttempt(saver, database, thread);
    const next = await takeAttempt(saver, database, thread);
    await expect(put(old, thread, list)).rejects.toMatchObject({ code: 'FENCE_STALE' });
    expect((await elementsOf(thread)).count).toBe(0);
    await expect(put(old, thread, [...list])).rejects.toMatchObject({ code: 'FENCE_STALE' });
    expect(await readAfresh(await put(next, thread, list))).toEqual(list);
  });

  test('nothing of a statement that failed', async () => {
    const thread = await makeThread(database);
    const list = messages(30);
    const attempt = await takeAttempt(new PerdureSaver(database, { retryForMs: 0 }), database, thread);
    const query = vi.spyOn(database.pool, 'query').mockImplementationOnce(() => {
      throw Object.assign(new Error('Connection terminated'), { code: '57P01' });
    });
    await expect(put(attempt, thread, list)).rejects.toMatchObject({ code: 'STORAGE_UNAVAILABLE' });
    query.mockRestore();
    expect(await readAfresh(await put(attempt, thread, list))).toEqual(list);
  });

  test('a thread deleted elsewhere is written anew, with everything', async () => {
    const thread = randomUUID();
    const list = messages(100);
    await put(saver, thread, list);
    await new PerdureSaver(database).deleteThread(thread);
    expect(await elementsOf(thread)).toEqual({ count: 0, bytes: 0 });
    expect(await readAfresh(await put(saver, thread, [...list, 1]))).toEqual([...list, 1]);
  });

  test('an attempt whose elements went is refused, and the next one goes on', async () => {
    const thread = await makeThread(database);
    const list = messages(100);
    const attempt = await takeAttempt(saver, database, thread);
    const first = await put(attempt, thread, list);
    const parent = first.configurable?.['checkpoint_id'] as string;
    await attempt.putWrites(first, [['c', [...list, 'w']]], randomUUID());
    await database.query(`DELETE FROM ${database.table('checkpoint_elements')} WHERE thread_id = $1`, [
      thread,
    ]);
    await expect(put(attempt, thread, [...list, 1], parent)).rejects.toMatchObject({
      code: 'STORAGE_UNAVAILABLE',
    });
    await expect(attempt.putWrites(first, [['c', [...list, 2]]], randomUUID())).rejects.toMatchObject({
      code: 'STORAGE_UNAVAILABLE',
    });
    const next = await takeAttempt(saver, database, thread);
    expect(await readAfresh(await put(next, thread, [...list, 1], parent))).toEqual([...list, 1]);
  });

  test('an element that is missing on reading is named', async () => {
    const config = await put(saver, randomUUID(), messages(100));
    await database.query(
      `DELETE FROM ${database.table('checkpoint_elements')} WHERE thread_id = $1 AND hash IN (
      SELECT hash FROM ${database.table('checkpoint_elements')} WHERE thread_id = $1 LIMIT 1)`,
      [config.configurable?.['thread_id']],
    );
    await expect(readAfresh(config)).rejects.toMatchObject({
      code: 'VALUE_UNREADABLE',
      details: { hash: expect.stringMatching(/^[0-9a-f]{40}$/) },
    });
  });

  test('tasks that finish at once with the same new elements do not wait for one another for ever', async () => {
    const thread = await makeThread(database);
    const attempt = await takeAttempt(saver, database, thread);
    const config = await put(attempt, thread, 1);
    const shared = messages(60, 2_000);
    await Promise.all(
      Array.from({ length: 12 }, (_, i) =>
        attempt.putWrites(config, [['c', i % 2 ? shared : shared.toReversed()]], randomUUID()),
      ),
    );
    const tuple = await new PerdureSaver(database).getTuple(config);
    expect(tuple?.pendingWrites?.length).toBe(12);
    expect((await rowsOf(database, thread))['writes']).toBe(12);
  });
});

describe('E22: 200 turns', () => {
  const State = Annotation.Root({
    messages: Annotation<BaseMessage[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
  });

  test('a window that drops its oldest messages costs no more as it goes on', async () => {
    const thread = randomUUID();
    const graph = new StateGraph(MessagesAnnotation)
      .addNode('model', ({ messages: all }) => ({
        messages: [
          new AIMessage({ id: randomUUID(), content: noise(400) }),
          ...all.slice(0, Math.max(0, all.length - 40)).map((m) => new RemoveMessage({ id: m.id ?? '' })),
        ],
      }))
      .addEdge(START, 'model')
      .addEdge('model', END)
      .compile({ checkpointer: saver });
    let last = 0;
    const grown: number[] = [];
    for (let turn = 1; turn <= 60; turn += 1) {
      await graph.invoke(
        { messages: [new HumanMessage(noise(400))] },
        { configurable: { thread_id: thread } },
      );
      if (turn % 30 !== 0) continue;
      const { bytes } = await elementsOf(thread);
      grown.push(bytes - last);
      last = bytes;
    }
    expect(grown[1]).toBeLessThan((grown[0] ?? 0) * 1.5);
  });

  test('an attempt reads only what it has not seen, in one statement a checkpoint', async () => {
    const thread = await makeThread(database);
    const graph = new StateGraph(State)
      .addNode('model', () => ({ messages: [new AIMessage(noise(2_000))] }))
      .addEdge(START, 'model')
      .addEdge('model', END);
    const config = { configurable: { thread_id: thread } };
    await graph.compile({ checkpointer: saver }).invoke({ messages: messages(200, 2_000) }, config);
    await saver.getTuple(config);
    const query = vi.spyOn(database.pool, 'query');
    await saver.getTuple(config);
    expect(query.mock.calls.length).toBe(1);
    const found = (await query.mock.results[0]?.value) as unknown as { rows: unknown[][] } | undefined;
    expect(found?.rows.filter(([kind]) => kind === 3)).toEqual([]);
    query.mockRestore();
  });
});
