import { Annotation, START, StateGraph } from '@langchain/langgraph';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import type { RunRequest } from '../../src/contracts/runs.ts';
import { requestRun } from '../../src/threads/request-run.ts';
import { beginSegment, finishSegment } from '../../src/threads/segment.ts';
import { cancelThread } from '../../src/threads/cancel.ts';
import { openInstallation, type Installation } from '../support/installation.ts';
import { tableContents } from '../support/table-contents.ts';

const idle = new StateGraph(Annotation.Root({ log: Annotation<string>() }))
  .addNode('a', () => ({ log: 'a' }))
  .addEdge(START, 'a')
  .compile();

let at: Installation;
let thread_id: string;
beforeAll(async () => {
  at = await openInstallation();
  await at.register({ idle });
});
beforeEach(() => {
  thread_id = crypto.randomUUID();
});
afterAll(() => at.close());

const ask = (more: Partial<RunRequest> = {}) =>
  requestRun(at.database, 'default', { graph: 'idle', thread_id, input: {}, ...more });
const begin = async () => {
  const run = await beginSegment(at.database, 'default', thread_id);
  if (!run) throw new Error('nothing waits');
  return run;
};
const end = (run: { run_id: string; fence: number }, status: 'success' | 'error' = 'success') =>
  finishSegment(at.database, 'default', thread_id, {
    run_id: run.run_id,
    fence: run.fence,
    status,
    checkpoint_id: null,
    supersede: 'others',
  });

test('of twenty who ask at once with `reject`, exactly one wins and the others are told of it', async () => {
  for (let round = 0; round < 20; round += 1) {
    thread_id = crypto.randomUUID();
    const asked = await Promise.allSettled(
      Array.from({ length: 20 }, () => ask({ multitask_strategy: 'reject' })),
    );
    const won = asked.flatMap((one) => (one.status === 'fulfilled' ? [one.value.run_id] : []));
    expect(won).toHaveLength(1);
    for (const one of asked)
      if (one.status === 'rejected')
        expect(one.reason).toMatchObject({ code: 'THREAD_BUSY', details: { thread_id, run_id: won[0] } });
    expect((await at.client.runs(thread_id)).map((run) => run.run_id)).toEqual(won);
  }
});

test('a rejected run changes nothing', async () => {
  await ask();
  const before = await tableContents(at.database);
  await expect(ask({ multitask_strategy: 'reject' })).rejects.toMatchObject({ code: 'THREAD_BUSY' });
  expect(await tableContents(at.database)).toEqual(before);
});

test('`reject` is let in again once the thread is free', async () => {
  await ask({ multitask_strategy: 'reject' });
  await end(await begin());
  await expect(ask({ multitask_strategy: 'reject' })).resolves.toMatchObject({ wakes: true });
});

test('runs are taken in the order in which they were asked for', async () => {
  const asked = [];
  for (let i = 0; i < 5; i += 1) asked.push((await ask({ input: { log: String(i) } })).run_id);
  for (const run_id of asked) {
    const run = await begin();
    expect(run).toMatchObject({ run_id, attempts: 1 });
    await end(run);
  }
  expect(await beginSegment(at.database, 'default', thread_id)).toBeUndefined();
});

test('twenty who ask at once with `enqueue` are all queued, and the thread counts them', async () => {
  const asked = await Promise.all(Array.from({ length: 20 }, () => ask()));
  expect(await at.client.thread(thread_id)).toMatchObject({ unfinished_runs: 20, status: 'busy' });
  const taken = [];
  for (let i = 0; i < 20; i += 1) {
    const run = await begin();
    taken.push(run.run_id);
    expect((await end(run)).more).toBe(i < 19);
  }
  expect(taken.toSorted()).toEqual(asked.map(({ run_id }) => run_id).toSorted());
  expect(await at.client.thread(thread_id)).toMatchObject({ unfinished_runs: 0, status: 'idle' });
});

test('an attempt that was overtaken can end nothing', async () => {
  await ask();
  const first = await begin();
  const second = await begin();
  expect(second).toMatchObject({ run_id: first.run_id, attempts: 2, fence: first.fence + 1 });
  await expect(end(first)).rejects.toMatchObject({ code: 'FENCE_STALE' });
  expect(await at.client.readRun(first.run_id)).toMatchObject({ status: 'running' });
  await end(second);
  // Whoever lost the reply asks again.
  expect(await end(second)).toMatchObject({ more: false });
  await expect(end(second, 'error')).rejects.toMatchObject({ code: 'FENCE_STALE' });
  expect(await at.client.readRun(first.run_id)).toMatchObject({ status: 'success' });
});

test('ten who begin at once get fences of their own, and only the newest may end the run', async () => {
  await ask();
  const begun = await Promise.all(Array.from({ length: 10 }, begin));
  expect(begun.map(({ fence }) => fence).toSorted((a, b) => a - b)).toEqual(
    Array.from({ length: 10 }, (_, i) => i + 1),
  );
  const ended = await Promise.allSettled(begun.map((run) => end(run)));
  expect(ended.flatMap((one, i) => (one.status === 'fulfilled' ? [begun[i]?.fence] : []))).toEqual([10]);
});

test('cancelling ends what is queued at once and marks what is in hand; twice does no harm', async () => {
  const [first, second, third] = [await ask(), await ask(), await ask()];
  const run = await begin();
  const cancelled = await cancelThread(at.database, 'default', thread_id);
  expect(cancelled.stopping_run).toBe(first.run_id);
  expect(cancelled.cancelled_runs.toSorted()).toEqual([second.run_id, third.run_id].toSorted());
  expect(await cancelThread(at.database, 'default', thread_id)).toMatchObject({
    stopping_run: first.run_id,
    cancelled_runs: [],
  });
  expect(await at.client.thread(thread_id)).toMatchObject({ unfinished_runs: 1, status: 'busy' });
  // It ended before it heard: what is done is done.
  await end(run);
  expect(await at.client.thread(thread_id)).toMatchObject({ unfinished_runs: 0, status: 'idle' });
  expect(await cancelThread(at.database, 'default', thread_id)).toMatchObject({
    stopping_run: null,
    cancelled_runs: [],
  });
});

test.each([
  ['an unknown graph', { graph: 'nothing' }, 'GRAPH_UNKNOWN'],
  ['an unknown version', { version: '2' }, 'GRAPH_UNKNOWN'],
  ['no input', { input: undefined as unknown as null }, 'INPUT_INVALID'],
  ['a limit of 0', { config: { recursion_limit: 0 } }, 'INPUT_INVALID'],
  ['an unknown setting', { config: { recursionLimit: 3 } }, 'INPUT_INVALID'],
  ['an unknown field', { inputs: {} }, 'INPUT_INVALID'],
  ['an empty thread id', { thread_id: '' }, 'INPUT_INVALID'],
  ['a thread id with NUL', { thread_id: 'a\u0000' }, 'INPUT_INVALID'],
])('%s is refused, and nothing is written', async (_, more: object, code) => {
  const before = await tableContents(at.database);
  await expect(ask(more)).rejects.toMatchObject({ code });
  expect(await tableContents(at.database)).toEqual(before);
});

test('a thread stays with its graph', async () => {
  await at.register({ other: idle });
  await ask();
  await expect(ask({ graph: 'other' })).rejects.toMatchObject({
    code: 'VERSION_MISMATCH',
    details: { graph: 'idle', version: '1' },
  });
  await expect(ask({ version: '7' })).rejects.toMatchObject({ code: 'VERSION_MISMATCH' });
});

test('ids of any kind stay apart, in Postgres and in Temporal', async () => {
  const ids = [
    'a/b',
    'a%2Fb',
    'a b',
    'A b',
    'ä',
    'tenant:x/y',
    '../..',
    '🦊',
    "o'hara",
    'x'.repeat(255),
    ';drop table runs',
  ];
  for (const id of ids) await ask({ thread_id: id });
  expect((await at.client.threads({ limit: 1_000 })).map((thread) => thread.thread_id)).toEqual(
    expect.arrayContaining(ids),
  );
  const { rows } = await at.database.query<{ n: number }>(
    `SELECT count(DISTINCT checkpoint_thread_id)::int AS n FROM ${at.database.table('threads')} WHERE thread_id = ANY($1)`,
    [ids],
  );
  expect(rows[0]?.n).toBe(ids.length);
});

test('a deleted thread takes no run, no answer and no cancel', async () => {
  await ask();
  await at.database.query(
    `UPDATE ${at.database.table('threads')} SET deleted_at = now() WHERE thread_id = $1`,
    [thread_id],
  );
  await expect(ask()).rejects.toMatchObject({ code: 'THREAD_DELETED' });
  await expect(at.client.answer(thread_id, 1)).rejects.toMatchObject({ code: 'THREAD_DELETED' });
  await expect(at.client.continueThread(thread_id)).rejects.toMatchObject({ code: 'THREAD_DELETED' });
  await expect(at.client.cancel(thread_id)).rejects.toMatchObject({ code: 'THREAD_DELETED' });
  await expect(at.client.thread(thread_id)).rejects.toMatchObject({ code: 'THREAD_UNKNOWN' });
  expect(await beginSegment(at.database, 'default', thread_id)).toBeUndefined();
});
