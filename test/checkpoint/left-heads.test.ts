import { type Checkpoint, emptyCheckpoint, uuid6 } from '@langchain/langgraph-checkpoint';
import { beforeAll, expect, test } from 'vitest';
import { type BoundSaver, PerdureSaver } from '../../src/checkpoint/saver.ts';
import type { Database } from '../../src/postgres/database.ts';
import { freshDatabase, makeThread, takeAttempt } from './fixture.ts';

let database: Database;
let saver: PerdureSaver;
beforeAll(async () => {
  database = await freshDatabase();
  saver = new PerdureSaver(database);
});

const text = 'long enough to be stored once under its hash '.repeat(40);

/** A value that storing would replace by another object. */
const marker = { text };

async function leave(thread: string): Promise<{ attempt: BoundSaver; checkpoint: Checkpoint }> {
  const attempt = await takeAttempt(saver, database, thread);
  const checkpoint = {
    ...emptyCheckpoint(),
    id: uuid6(0),
    channel_values: { v: marker },
    channel_versions: { v: 1 },
  };
  await attempt.put(at(thread), checkpoint, { source: 'loop', step: 0, parents: {} }, { v: 1 });
  attempt.leave();
  return { attempt, checkpoint };
}

function at(thread: string, id?: string) {
  return { configurable: { thread_id: thread, checkpoint_ns: '', ...(id ? { checkpoint_id: id } : {}) } };
}

const held = async (attempt: BoundSaver, thread: string) =>
  (await attempt.getTuple(at(thread)))?.checkpoint.channel_values['v'];

test('the attempt that follows at once has the head without reading it, and it is as if read', async () => {
  const thread = await makeThread(database);
  const { checkpoint } = await leave(thread);
  const next = await takeAttempt(saver, database, thread);
  const tuple = await next.getTuple(at(thread));
  expect(tuple?.checkpoint.channel_values['v']).toBe(marker);
  const read = await new PerdureSaver(database).getTuple(at(thread));
  expect(tuple).toEqual(read);
  expect(await next.getTuple(at(thread, checkpoint.id))).toEqual(read);
});

test('what is changed of a tuple is not changed for who asks again', async () => {
  const thread = await makeThread(database);
  await leave(thread);
  const next = await takeAttempt(saver, database, thread);
  const first = await next.getTuple(at(thread));
  Object.assign(first?.checkpoint.channel_values ?? {}, { v: 'other' });
  Object.assign(first?.checkpoint.versions_seen ?? {}, { node: { v: 1 } });
  expect(await held(next, thread)).toBe(marker);
  expect((await next.getTuple(at(thread)))?.checkpoint.versions_seen).toEqual({});
});

test('pending writes are seen: once the attempt has stored some, it reads', async () => {
  const thread = await makeThread(database);
  const { checkpoint } = await leave(thread);
  const next = await takeAttempt(saver, database, thread);
  expect(await held(next, thread)).toBe(marker);
  await next.putWrites(at(thread, checkpoint.id), [['v', 2]], 'task');
  const tuple = await next.getTuple(at(thread));
  expect(tuple?.pendingWrites).toEqual([['task', 'v', 2]]);
  expect(tuple?.checkpoint.channel_values['v']).toEqual(marker);
});

test('an attempt after another one, or of another process, reads', async () => {
  const thread = await makeThread(database);
  await leave(thread);
  await takeAttempt(new PerdureSaver(database), database, thread);
  const later = await takeAttempt(saver, database, thread);
  const value = await held(later, thread);
  expect(value).not.toBe(marker);
  expect(value).toEqual(marker);
});

test('a head is left to one attempt only, and its elements count as stored', async () => {
  const thread = await makeThread(database);
  const { checkpoint } = await leave(thread);
  const next = await takeAttempt(saver, database, thread);
  const second: Checkpoint = { ...checkpoint, id: uuid6(1), channel_versions: { v: 2 } };
  await next.put(at(thread, checkpoint.id), second, { source: 'loop', step: 1, parents: {} }, { v: 2 });
  const read = await new PerdureSaver(database).getTuple(at(thread));
  expect(read?.checkpoint).toMatchObject({ id: second.id, channel_values: { v: marker } });
  const last = await takeAttempt(saver, database, thread);
  expect(await held(last, thread)).not.toBe(marker);
});
