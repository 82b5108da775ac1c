import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { PerdureSaver } from '../../src/checkpoint/saver.ts';
import { openDatabase, quoteIdentifier, type Database } from '../../src/postgres/database.ts';
import { migrate } from '../../src/postgres/migrate.ts';
import {
  beginTask,
  forgetTaskAttempts,
  recordTaskError,
  taskErrors,
} from '../../src/threads/task-attempts.ts';

let database: Database;
beforeAll(async () => {
  const schema = `task_attempts_${randomUUID().slice(0, 8)}`;
  database = openDatabase({ connectionString: inject('databaseUrl'), schema, max: 4 });
  await migrate(database);
});
afterAll(async () => {
  await database.query(`DROP SCHEMA ${quoteIdentifier(database.schema)} CASCADE`);
  await database.close();
});

/** A thread whose run a segment with the fence 1 has in hand. */
async function busyThread() {
  const [thread_id, run_id, task_id] = [randomUUID(), randomUUID(), randomUUID()];
  await database.query(
    `INSERT INTO ${database.table('threads')} (thread_id, checkpoint_thread_id, graph, version, lineage_root, fence)
     VALUES ($1, $1, 'g', '1', $1, 1)`,
    [thread_id],
  );
  await database.query(
    `INSERT INTO ${database.table('runs')} (run_id, thread_id, kind, actor, status) VALUES ($1, $2, 'input', 'user:x', 'running')`,
    [run_id, thread_id],
  );
  const task = { thread_id, run_id, task_id, fence: 1 };
  const begin = (token: string) => beginTask(database, 'default', { ...task, token });
  const write = async (token: string, ...values: string[]) => {
    const saver = new PerdureSaver(database).bind({
      threadId: thread_id,
      tenantId: 'default',
      publicThreadId: thread_id,
      fence: 1,
      graphVersion: 'g@1',
      runId: run_id,
      head: null,
      stateVersion: 0,
      nextNodes: () => [],
      task: { id: task_id, token },
    });
    const config = { configurable: { thread_id, checkpoint_ns: '', checkpoint_id: 'c1' } };
    await saver.putWrites(
      config,
      values.map((value) => ['log', value]),
      task_id,
    );
  };
  const written = async () =>
    (await new PerdureSaver(database).taskWrites(thread_id, '', 'c1', task_id)).map(([, , value]) => value);
  return { ...task, begin, write, written };
}

test("only the newest attempt's writes are stored, whole", async () => {
  const { begin, write, written } = await busyThread();
  const [zombie, newest] = [randomUUID(), randomUUID()];
  expect(await begin(zombie)).toMatchObject({ attempts: 1, errors: 0 });
  expect(await begin(newest)).toMatchObject({ attempts: 2, errors: 0 });
  await expect(write(zombie, 'a', 'b', 'c')).rejects.toMatchObject({ code: 'FENCE_STALE' });
  await write(newest, 'd', 'e');
  await expect(write(zombie, 'a', 'b', 'c')).rejects.toMatchObject({ code: 'FENCE_STALE' });
  expect(await written()).toEqual(['d', 'e']);
});

test('a newer segment shuts every task of the older one out', async () => {
  const { thread_id, begin, write, written } = await busyThread();
  const token = randomUUID();
  await begin(token);
  await database.query(`UPDATE ${database.table('threads')} SET fence = 2 WHERE thread_id = $1`, [thread_id]);
  await expect(write(token, 'a')).rejects.toMatchObject({ code: 'FENCE_STALE' });
  expect(await begin(randomUUID())).toBeUndefined();
  expect(await written()).toEqual([]);
});

test('errors are counted for one run, by the attempt that has the task', async () => {
  const { begin, ...task } = await busyThread();
  const [first, second] = [randomUUID(), randomUUID()];
  const fail = (token: string, message: string) =>
    recordTaskError(database, 'default', { ...task, token }, { name: 'Error', message });
  await begin(first);
  expect(await fail(first, 'one')).toBe(true);
  expect(await begin(second)).toMatchObject({ attempts: 2, errors: 1 });
  expect(await fail(first, 'late')).toBe(false);
  expect(await fail(second, 'two')).toBe(true);
  const errors = await taskErrors(database, 'default', task.thread_id, task.run_id);
  expect(errors.get(task.task_id)?.message).toBe('two');
  await forgetTaskAttempts(database, 'default', task.thread_id, 2);
  expect((await taskErrors(database, 'default', task.thread_id, task.run_id)).size).toBe(0);
});
