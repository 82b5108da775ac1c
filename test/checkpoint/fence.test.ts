import { randomUUID } from 'node:crypto';
import { type Checkpoint, emptyCheckpoint, uuid6 } from '@langchain/langgraph-checkpoint';
import { beforeAll, describe, expect, test } from 'vitest';
import { isPerdureError } from '../../src/contracts/errors.ts';
import { type BoundSaver, PerdureSaver } from '../../src/checkpoint/saver.ts';
import type { Database } from '../../src/postgres/database.ts';
import { freshDatabase, makeThread, rowsOf, takeAttempt } from './fixture.ts';

let database: Database;
let saver: PerdureSaver;
beforeAll(async () => {
  database = await freshDatabase();
  saver = new PerdureSaver(database);
});

const metadata = (step: number) => ({ source: 'loop' as const, step, parents: {} });
const versions = { v: 1 };

function checkpointOf(step: number, v: unknown = step): Checkpoint {
  return { ...emptyCheckpoint(), id: uuid6(step), channel_values: { v }, channel_versions: versions };
}

function at(thread: string, id?: string | null, ns = '') {
  return { configurable: { thread_id: thread, checkpoint_ns: ns, ...(id ? { checkpoint_id: id } : {}) } };
}

/** A thread with one checkpoint, written by an attempt. */
async function begun(): Promise<{ thread: string; attempt: BoundSaver; first: Checkpoint }> {
  const thread = await makeThread(database);
  const attempt = await takeAttempt(saver, database, thread);
  const first = checkpointOf(0);
  await attempt.put(at(thread), first, metadata(0), versions);
  return { thread, attempt, first };
}

async function threadRow(thread: string) {
  const { rows } = await database.query<{ head: string | null; version: number; deleted: boolean }>(
    `SELECT head_checkpoint_id AS head, state_version AS version, deleted_at IS NOT NULL AS deleted
     FROM ${database.table('threads')} WHERE thread_id = $1`,
    [thread],
  );
  return rows[0];
}

/** Every way to write as an attempt. */
const writes: [string, (attempt: BoundSaver, thread: string, parent: string) => Promise<unknown>][] = [
  [
    'put',
    (attempt, thread, parent) => attempt.put(at(thread, parent), checkpointOf(1), metadata(1), { v: 2 }),
  ],
  [
    'put in a nested namespace',
    (attempt, thread, parent) =>
      attempt.put(at(thread, parent, 'sub:1'), checkpointOf(1), metadata(1), { v: 2 }),
  ],
  ['putWrites', (attempt, thread, parent) => attempt.putWrites(at(thread, parent), [['v', 2]], 'task', '~p')],
  [
    'putWrites in a nested namespace',
    (attempt, thread, parent) => attempt.putWrites(at(thread, parent, 'sub:1'), [['v', 2]], 'task'),
  ],
  [
    'putWrites of an error',
    (attempt, thread, parent) =>
      attempt.putWrites(at(thread, parent), [['__error__', { message: 'x' }]], 'task'),
  ],
];

describe('an attempt whose fence was taken over', () => {
  test.each(writes)('%s is refused and leaves no row', async (_, write) => {
    const { thread, attempt, first } = await begun();
    await takeAttempt(saver, database, thread);
    const before = [await rowsOf(database, thread), await threadRow(thread)];
    await expect(write(attempt, thread, first.id)).rejects.toMatchObject({
      code: 'FENCE_STALE',
      details: { thread_id: thread },
    });
    expect([await rowsOf(database, thread), await threadRow(thread)]).toEqual(before);
    expect(attempt.failure).toMatchObject({ code: 'FENCE_STALE' });
  });

  test('a writer that waited for the takeover is refused after it', async () => {
    const { thread, attempt, first } = await begun();
    const before = await rowsOf(database, thread);
    const late = await database.transaction(async (client) => {
      await client.query(`UPDATE ${database.table('threads')} SET fence = fence + 1 WHERE thread_id = $1`, [
        thread,
      ]);
      const pending = writes.map(([, write]) =>
        write(attempt, thread, first.id).then(
          () => 'written',
          (error: unknown) => (isPerdureError(error) ? error.code : error),
        ),
      );
      await untilBlocked(database, pending.length);
      return pending;
    });
    expect(await Promise.all(late)).toEqual(writes.map(() => 'FENCE_STALE'));
    expect(await rowsOf(database, thread)).toEqual(before);
  });
});

/** Waits until so many sessions wait for a lock of this test's. */
async function untilBlocked(where: Database, sessions: number): Promise<void> {
  for (;;) {
    const { rows } = await where.query<{ n: number }>(
      `SELECT count(*)::int AS n FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%' || $1 || '%'`,
      [where.schema],
    );
    if ((rows[0]?.n ?? 0) >= sessions) return;
  }
}

describe('E18: a late writer to a deleted thread', () => {
  test.each(writes)('%s of an attempt is refused and leaves no row', async (_, write) => {
    const { thread, attempt, first } = await begun();
    await saver.deleteThread(thread);
    await expect(write(attempt, thread, first.id)).rejects.toMatchObject({ code: 'THREAD_DELETED' });
    expect(await rowsOf(database, thread)).toEqual({ checkpoints: 0, blobs: 0, writes: 0 });
  });

  test('a saver used alone is refused as well', async () => {
    const { thread, first } = await begun();
    await saver.deleteThread(thread);
    await expect(
      saver.put(at(thread, first.id), checkpointOf(1), metadata(1), { v: 2 }),
    ).rejects.toMatchObject({ code: 'THREAD_DELETED' });
    await expect(
      saver.put(at(thread, first.id, 'sub:1'), checkpointOf(1), metadata(1), { v: 2 }),
    ).rejects.toMatchObject({ code: 'THREAD_DELETED' });
    await expect(saver.putWrites(at(thread, first.id), [['v', 2]], 'task')).rejects.toMatchObject({
      code: 'THREAD_DELETED',
    });
    expect(await rowsOf(database, thread)).toEqual({ checkpoints: 0, blobs: 0, writes: 0 });
  });

  test('a new attempt cannot write to it either', async () => {
    const { thread } = await begun();
    await saver.deleteThread(thread);
    const later = await takeAttempt(saver, database, thread);
    await expect(
      later.put(at(thread, later.head), checkpointOf(1), metadata(1), versions),
    ).rejects.toMatchObject({ code: 'THREAD_DELETED' });
  });

  test('deletion that races with writers leaves no row', async () => {
    const { thread, attempt, first } = await begun();
    const racing = Array.from({ length: 20 }, (_, i) => [
      attempt.putWrites(at(thread, first.id), [['v', i]], `task${i}`),
      saver.putWrites(at(thread, first.id), [['v', i]], `other${i}`),
    ]).flat();
    await saver.deleteThread(thread);
    await Promise.allSettled(racing);
    expect(await rowsOf(database, thread)).toEqual({ checkpoints: 0, blobs: 0, writes: 0 });
  });

  test('a thread that the runtime does not know may be written again', async () => {
    const thread = randomUUID();
    await saver.put(at(thread), checkpointOf(0), metadata(0), versions);
    await saver.deleteThread(thread);
    await saver.put(at(thread), checkpointOf(0), metadata(0), versions);
    expect(await rowsOf(database, thread)).toMatchObject({ checkpoints: 1 });
  });
});

describe('the parent of a checkpoint', () => {
  test('must be the newest one', async () => {
    const { thread, attempt, first } = await begun();
    const second = checkpointOf(1);
    await attempt.put(at(thread, first.id), second, metadata(1), { v: 2 });
    const before = await rowsOf(database, thread);
    await expect(
      attempt.put(at(thread, first.id), checkpointOf(2), metadata(2), { v: 3 }),
    ).rejects.toMatchObject({ code: 'CHECKPOINT_PARENT_STALE' });
    await expect(attempt.put(at(thread), checkpointOf(2), metadata(2), { v: 3 })).rejects.toMatchObject({
      code: 'CHECKPOINT_PARENT_STALE',
    });
    expect(await rowsOf(database, thread)).toEqual(before);
    expect(attempt.head).toBe(second.id);
  });

  test('is not the newest any more once somebody else wrote', async () => {
    const { thread, attempt, first } = await begun();
    const foreign = checkpointOf(1);
    await saver.put(at(thread, first.id), foreign, metadata(1), { v: 2 });
    expect(await threadRow(thread)).toMatchObject({ head: foreign.id, version: 2 });
    const before = await rowsOf(database, thread);
    await expect(
      attempt.put(at(thread, first.id), checkpointOf(2), metadata(2), { v: 3 }),
    ).rejects.toMatchObject({ code: 'CHECKPOINT_PARENT_STALE', details: { head: foreign.id } });
    expect(await rowsOf(database, thread)).toEqual(before);
  });

  test('may be the one that the attempt forks from, once', async () => {
    const { thread, attempt, first } = await begun();
    await attempt.put(at(thread, first.id), checkpointOf(1), metadata(1), { v: 2 });
    const fork = await takeAttempt(saver, database, thread, { forkFrom: first.id });
    await fork.getTuple(at(thread, first.id));
    await fork.getTuple(at(thread));
    expect(fork.stepOf('')).toBe(1);
    const branch = checkpointOf(2);
    await fork.put(at(thread, first.id), branch, metadata(1), { v: 2.5 });
    await expect(
      fork.put(at(thread, first.id), checkpointOf(3), metadata(2), { v: 3 }),
    ).rejects.toMatchObject({ code: 'CHECKPOINT_PARENT_STALE' });
    await fork.put(at(thread, branch.id), checkpointOf(3), metadata(2), { v: 3 });
  });

  test('is of the thread that the saver is bound to', async () => {
    const { attempt } = await begun();
    const other = await makeThread(database);
    await expect(attempt.put(at(other), checkpointOf(1), metadata(1), versions)).rejects.toMatchObject({
      code: 'INPUT_INVALID',
    });
    await expect(attempt.putWrites(at(other, 'x'), [['v', 1]], 't')).rejects.toMatchObject({
      code: 'INPUT_INVALID',
    });
    expect(await rowsOf(database, other)).toEqual({ checkpoints: 0, blobs: 0, writes: 0 });
  });
});

describe('what was stored though the reply was lost', () => {
  test('is accepted again by the same attempt', async () => {
    const { thread, attempt, first } = await begun();
    const second = checkpointOf(1);
    for (let i = 0; i < 2; i += 1) await attempt.put(at(thread, first.id), second, metadata(1), { v: 2 });
    expect(await threadRow(thread)).toMatchObject({ head: second.id, version: 2 });
    expect(await rowsOf(database, thread)).toMatchObject({ checkpoints: 2 });
    await attempt.put(at(thread, second.id), checkpointOf(2), metadata(2), { v: 3 });
  });

  test('is accepted when the attempt does not know that it was stored', async () => {
    const thread = await makeThread(database);
    const attempt = await takeAttempt(saver, database, thread);
    const first = checkpointOf(0);
    await attempt.put(at(thread), first, metadata(0), versions);
    // As the attempt stood before the reply: head still null.
    const { rows } = await database.query<{ fence: string }>(
      `SELECT fence FROM ${database.table('threads')} WHERE thread_id = $1`,
      [thread],
    );
    const again = saver.bind({
      threadId: thread,
      tenantId: 'default',
      publicThreadId: thread,
      fence: BigInt(rows[0]?.fence ?? 0),
      graphVersion: 'g@1',
      runId: 'r',
      head: null,
      stateVersion: 0,
      nextNodes: () => [],
    });
    await again.put(at(thread), first, metadata(0), versions);
    expect(await threadRow(thread)).toMatchObject({ head: first.id, version: 1 });
    expect(await rowsOf(database, thread)).toMatchObject({ checkpoints: 1, blobs: 1 });
  });

  test('a task keeps the writes it stored first', async () => {
    const { thread, attempt, first } = await begun();
    await attempt.putWrites(at(thread, first.id), [['v', 'one']], 'task');
    await attempt.putWrites(at(thread, first.id), [['v', 'two']], 'task');
    expect((await saver.getTuple(at(thread)))?.pendingWrites).toEqual([['task', 'v', 'one']]);
  });

  test('of a task with several answers the last counts', async () => {
    const { thread, attempt, first } = await begun();
    await attempt.putWrites(
      at(thread, first.id),
      [
        ['__resume__', ['a']],
        ['v', 1],
        ['__resume__', ['a', 'b']],
      ],
      'task',
    );
    expect((await saver.getTuple(at(thread)))?.pendingWrites).toEqual([
      ['task', '__resume__', ['a', 'b']],
      ['task', 'v', 1],
    ]);
  });
});

test('the metadata says version, run, superstep, state version and what comes next', async () => {
  const thread = await makeThread(database);
  const attempt = await takeAttempt(saver, database, thread, {
    nextNodes: () => ['x', 'x', 'y'],
    runId: 'run-1',
  });
  const first = checkpointOf(0);
  await attempt.put(at(thread), first, metadata(-1), versions);
  const tuple = await saver.getTuple(at(thread));
  expect(tuple?.metadata).toEqual({
    ...metadata(-1),
    graph_version: 'g@1',
    run_id: 'run-1',
    superstep: -1,
    state_version: 1,
    resume_node: 'x,x,y',
    pending_tasks: ['x', 'x', 'y'],
  });
  expect(attempt.stepOf('')).toBe(0);
  await attempt.put(at(thread, first.id, 'sub:1'), checkpointOf(1), metadata(4), versions);
  expect((await saver.getTuple(at(thread, null, 'sub:1')))?.metadata).toMatchObject({
    step: 4,
    superstep: 0,
    state_version: 1,
  });
  expect(attempt.stepOf('sub:1')).toBe(5);
  expect(attempt.stepOf('other')).toBeUndefined();
});

test('a value is stored as it was when put was called', async () => {
  const { thread, attempt, first } = await begun();
  const value = { list: [1] };
  const checkpoint = checkpointOf(1, value);
  const written = [
    attempt.putWrites(at(thread, first.id), [['v', value]], 'task'),
    attempt.put(at(thread, first.id), checkpoint, metadata(1), versions),
  ];
  value.list.push(2);
  await Promise.all(written);
  expect((await saver.getTuple(at(thread, first.id)))?.pendingWrites).toEqual([['task', 'v', { list: [1] }]]);
});
