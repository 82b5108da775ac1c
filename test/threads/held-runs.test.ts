import { Annotation, START, StateGraph } from '@langchain/langgraph';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import type { RunRequest } from '../../src/contracts/runs.ts';
import { answerInterrupt } from '../../src/threads/answer.ts';
import { cancelThread } from '../../src/threads/cancel.ts';
import { releaseForgotten } from '../../src/threads/held-runs.ts';
import { readPause } from '../../src/threads/postpone-run.ts';
import { checkRequest, recordRun, requestRun } from '../../src/threads/request-run.ts';
import { retryThread } from '../../src/threads/retry-thread.ts';
import { straySettled } from '../../src/threads/stray-workflows.ts';
import { sampleSignalled, takeUnsignalled } from '../../src/threads/wake-list.ts';
import {
  beginSegment,
  finishSegment,
  type AskedInterrupt,
  type ClaimedRun,
  type SegmentEnd,
} from '../../src/threads/segment.ts';
import { until } from '../support/eventually.ts';
import { openInstallation, type Installation } from '../support/installation.ts';

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
afterEach(counted);
afterAll(() => at.close());

/** The thread counts its unfinished runs, and those that are held apart from them. */
async function counted(): Promise<void> {
  const { rows } = await at.database.query(
    `SELECT unfinished_runs, held_runs,
       (SELECT count(*)::int FROM ${at.database.table('runs')} r WHERE r.thread_id = t.thread_id
          AND r.status IN ('pending', 'running') AND NOT r.held) AS unfinished,
       (SELECT count(*)::int FROM ${at.database.table('runs')} r WHERE r.thread_id = t.thread_id AND r.held) AS held,
       (SELECT count(*)::int FROM ${at.database.table('runs')} r WHERE r.thread_id = t.thread_id
          AND r.held AND (r.status <> 'pending' OR r.kind <> 'input')) AS wrong
     FROM ${at.database.table('threads')} t`,
  );
  for (const row of rows)
    expect(row).toMatchObject({ unfinished_runs: row['unfinished'], held_runs: row['held'], wrong: 0 });
}

/** Looks at the counts after each step. */
async function step<T>(work: Promise<T>): Promise<T> {
  const result = await work;
  await counted();
  return result;
}

const ask = (more: Partial<RunRequest> = {}) =>
  step(requestRun(at.database, 'default', { graph: 'idle', thread_id, input: {}, ...more }));

async function begin(): Promise<ClaimedRun> {
  const run = await step(beginSegment(at.database, 'default', thread_id));
  if (!run) throw new Error('nothing waits');
  return run;
}

const end = (
  { run_id, fence }: { run_id: string; fence: number },
  status: SegmentEnd['status'] = 'success',
  more: Partial<SegmentEnd> = {},
) =>
  step(
    finishSegment(at.database, 'default', thread_id, {
      run_id,
      fence,
      status,
      checkpoint_id: null,
      supersede: 'others',
      ...more,
    }),
  );

const question = (interrupt_id: string, kind: AskedInterrupt['kind'] = 'operation'): AskedInterrupt => ({
  interrupt_id,
  kind,
  node: 'a',
  checkpoint_id: 'c1',
  origin_ns: '',
  origin_checkpoint_id: 'c1',
  origin_task_id: 't1',
  operation_id: kind === 'operation' ? `of ${interrupt_id}` : null,
  value: 'what became of it?',
});
const asks = (run: ClaimedRun, ...asked: AskedInterrupt[]) => end(run, 'interrupted', { asked });
const answer = (interrupt_id: string) =>
  step(
    answerInterrupt(at.database, 'default', {
      thread_id,
      interrupt_id,
      value: { retry: true },
      actor: 'user:mira',
    }),
  );
const heldRuns = async () =>
  (await at.client.runs(thread_id)).filter(({ held }) => held).map(({ run_id }) => run_id);

/** A run that asks about an operation, and the input that was queued behind it, oldest first. */
async function holding(queued = 1): Promise<{ asking: string; held: string[] }> {
  const { run_id: asking } = await ask();
  const run = await begin();
  const held: string[] = [];
  for (let i = 0; i < queued; i += 1) held.push((await ask()).run_id);
  expect(await asks(run, question('q1'))).toMatchObject({ more: false });
  return { asking, held };
}

/** Takes and ends runs until none is left, the last of which is the newest. @returns their ids, in order. */
async function drain(): Promise<string[]> {
  const taken: string[] = [];
  for (;;) {
    const run = await step(beginSegment(at.database, 'default', thread_id));
    if (!run) {
      expect((await at.client.runs(thread_id, 1))[0]?.run_id).toBe(taken.at(-1));
      return taken;
    }
    taken.push(run.run_id);
    await end(run);
  }
}

test('queued input waits while the run before it asks about an operation, and goes on after the answer', async () => {
  const { held } = await holding(2);
  expect((await heldRuns()).toSorted()).toEqual(held.toSorted());
  expect(await at.client.thread(thread_id)).toMatchObject({ status: 'interrupted', unfinished_runs: 0 });
  expect(await beginSegment(at.database, 'default', thread_id)).toBeUndefined();
  const continued = await answer('q1');
  expect(continued).toMatchObject({ wakes: true });
  const run = await begin();
  expect(run).toMatchObject({ run_id: continued.run_id, kind: 'continue' });
  expect(await end(run)).toMatchObject({ more: true });
  expect(await heldRuns()).toEqual([]);
  expect(await drain()).toEqual(held);
  expect(await at.client.thread(thread_id)).toMatchObject({ status: 'idle', unfinished_runs: 0 });
});

test('input that comes while the answer is carried on runs after the held one', async () => {
  const { held } = await holding();
  await answer('q1');
  const run = await begin();
  const later = await ask();
  expect(later).toMatchObject({ wakes: false });
  // It asks once more: all of it waits.
  await asks(run, question('q2'));
  expect((await heldRuns()).toSorted()).toEqual([...held, later.run_id].toSorted());
  await answer('q2');
  await end(await begin());
  expect(await drain()).toEqual([...held, later.run_id]);
});

test('a question of the graph holds nothing', async () => {
  const { run_id: first } = await ask();
  const run = await begin();
  const queued = await ask();
  expect(await asks(run, question('q1', 'interrupt'))).toMatchObject({ more: true });
  expect(await at.client.readRun(first)).toMatchObject({ status: 'interrupted' });
  expect(await begin()).toMatchObject({ run_id: queued.run_id });
});

test('a run that asks both holds; while one of two operations is open, so does an error', async () => {
  await ask();
  const run = await begin();
  const { run_id: queued } = await ask();
  await asks(run, question('q1', 'interrupt'), question('q2'), question('q3'));
  await answer('q2');
  await end(await begin(), 'error', { supersede: 'none' });
  expect(await heldRuns()).toEqual([queued]);
  expect(await at.client.thread(thread_id)).toMatchObject({ status: 'error' });
  const retried = await step(retryThread(at.database, 'default', thread_id, 'user:mira'));
  // Answered while another run is under way: its own run goes before the held input, too.
  const again = await begin();
  expect(again.run_id).toBe(retried.run_id);
  const answered = await answer('q3');
  await end(again, 'error', { supersede: 'none' });
  expect(await heldRuns()).toEqual([queued]);
  expect(await drain()).toEqual([answered.run_id, queued]);
});

test.each(['error', 'cancelled'] as const)(
  'a continued run that ends as %s lets held input go on',
  async (status) => {
    const { held } = await holding();
    await answer('q1');
    expect(await end(await begin(), status, { supersede: 'none' })).toMatchObject({ more: true });
    expect(await drain()).toEqual(held);
  },
);

test('new input does without the answer: what is held goes first', async () => {
  const { held } = await holding(2);
  const next = await ask();
  expect(next).toMatchObject({ wakes: true });
  expect(await heldRuns()).toEqual([]);
  expect(await drain()).toEqual([...held, next.run_id]);
  await expect(answer('q1')).rejects.toMatchObject({ code: 'INTERRUPT_UNKNOWN' });
});

test('so does what a schedule records, in a transaction of its own', async () => {
  const { held } = await holding();
  const checked = checkRequest({ graph: 'idle', thread_id, input: {} });
  const next = await step(
    at.database.transaction((client) => recordRun(at.database, client, 'default', checked)),
  );
  expect(next).toMatchObject({ wakes: true });
  expect(await drain()).toEqual([...held, next.run_id]);
});

test('of twenty inputs at once behind held input, all run after it', async () => {
  const { held } = await holding();
  const next = await step(Promise.all(Array.from({ length: 20 }, () => ask())));
  expect(next.filter(({ wakes }) => wakes)).toHaveLength(1);
  const ran = await drain();
  expect(ran.slice(0, 1)).toEqual(held);
  expect(ran.slice(1).toSorted()).toEqual(next.map(({ run_id }) => run_id).toSorted());
});

test('`reject` is refused while input is held, and a refused input releases nothing', async () => {
  const { held } = await holding();
  await expect(ask({ multitask_strategy: 'reject' })).rejects.toMatchObject({
    code: 'THREAD_BUSY',
    details: { run_id: held[0] },
  });
  await expect(ask({ version: '7' })).rejects.toMatchObject({ code: 'VERSION_MISMATCH' });
  await counted();
  expect(await heldRuns()).toEqual(held);
});

test.each(['interrupt', 'rollback'] as const)('`%s` drops held input', async (strategy) => {
  const { asking, held } = await holding(2);
  const next = await ask({ multitask_strategy: strategy });
  expect(next).toMatchObject({ wakes: true, stopped: { stopping_run: null } });
  expect(next.stopped?.dropped_runs.toSorted()).toEqual(held.toSorted());
  expect(await drain()).toEqual([next.run_id]);
  for (const run_id of held)
    expect(await at.client.readRun(run_id)).toMatchObject({
      status: strategy === 'rollback' ? 'rolled_back' : 'interrupted',
      stopped_by: next.run_id,
    });
  expect(await at.client.readRun(asking)).toMatchObject({ status: 'interrupted' });
});

test('input that stops a run is not held by what that run still asks', async () => {
  await ask();
  const run = await begin();
  const next = await ask({ multitask_strategy: 'interrupt' });
  expect(await asks(run, question('q1'))).toMatchObject({ more: true });
  expect(await drain()).toEqual([next.run_id]);
});

test('cancelling ends held input as well', async () => {
  const { asking, held } = await holding(2);
  const { cancelled_runs } = await step(cancelThread(at.database, 'default', thread_id));
  expect(cancelled_runs.toSorted()).toEqual([asking, ...held].toSorted());
  expect(await at.client.thread(thread_id)).toMatchObject({ status: 'idle', unfinished_runs: 0 });
});

test('a fork goes on at once, and held input after it', async () => {
  const { held } = await holding();
  const { database } = at;
  await database.query(
    `INSERT INTO ${database.table('checkpoints')} (thread_id, checkpoint_ns, checkpoint_id, checkpoint, metadata)
     SELECT checkpoint_thread_id, '', 'c1', '{}', '{"step": 0}' FROM ${database.table('threads')} WHERE thread_id = $1`,
    [thread_id],
  );
  const { run_id: fork } = await at.client.fork(thread_id, { checkpointId: 'c1' });
  await counted();
  expect(await drain()).toEqual([fork, ...held]);
});

test('a fork that was queued between inputs goes before them once they are held', async () => {
  await ask();
  const run = await begin();
  const { database } = at;
  await database.query(
    `INSERT INTO ${database.table('checkpoints')} (thread_id, checkpoint_ns, checkpoint_id, checkpoint, metadata)
     SELECT checkpoint_thread_id, '', 'c1', '{}', '{"step": 0}' FROM ${database.table('threads')} WHERE thread_id = $1`,
    [thread_id],
  );
  const first = await ask();
  const fork = await at.client.fork(thread_id, { checkpointId: 'c1' });
  const second = await ask();
  expect(await asks(run, question('q1'))).toMatchObject({ more: true });
  expect(await drain()).toEqual([fork.run_id, first.run_id, second.run_id]);
});

test('held input that fails after the answer is what a retry means; of two who answer, the second is told', async () => {
  const { held } = await holding(3);
  await answer('q1');
  await expect(
    answerInterrupt(at.database, 'default', { thread_id, value: { happened: 1 }, actor: 'user:noor' }),
  ).rejects.toMatchObject({ code: 'INTERRUPT_ALREADY_ANSWERED' });
  await end(await begin(), 'error', { supersede: 'none' });
  for (const run_id of held) {
    const run = await begin();
    expect(run.run_id).toBe(run_id);
    await end(run, 'error');
  }
  await step(retryThread(at.database, 'default', thread_id, 'user:mira'));
  // As the newest one was: by its input once more, since it stored no checkpoint.
  expect(await begin()).toMatchObject({ kind: 'input' });
});

test('input that is recorded while the question is, is held', async () => {
  await ask();
  const run = await begin();
  const { database } = at;
  const asking = await database.transaction(async (client) => {
    // As a client that has the thread's row, and whose run nobody sees yet.
    await client.query(
      `UPDATE ${database.table('threads')} SET unfinished_runs = unfinished_runs + 1 WHERE thread_id = $1`,
      [thread_id],
    );
    await client.query(
      `INSERT INTO ${database.table('runs')} (run_id, thread_id, kind, input, actor) VALUES ($1, $2, 'input', '{}', 'user:mira')`,
      [crypto.randomUUID(), thread_id],
    );
    const ending = finishSegment(database, 'default', thread_id, {
      run_id: run.run_id,
      fence: run.fence,
      status: 'interrupted',
      checkpoint_id: null,
      supersede: 'others',
      asked: [question('q1')],
    });
    await until(async () => {
      const { rowCount } = await database.query(
        `SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND strpos(query, $1) > 0`,
        [at.schema],
      );
      return rowCount === 1;
    });
    return { ending };
  });
  expect(await asking.ending).toMatchObject({ more: false });
  expect(await heldRuns()).toHaveLength(1);
});

test('nobody takes, wakes or waits for held input', async () => {
  const { held } = await holding();
  const { database } = at;
  await database.query(
    `UPDATE ${database.table('runs')} SET created_at = now() - interval '1 hour', signals = 1,
       signalled_at = now() - interval '1 hour', retry_at = now() + interval '1 hour' WHERE run_id = $1`,
    [held[0]],
  );
  const ofThread = (runs: { thread_id: string }[]) => runs.filter((run) => run.thread_id === thread_id);
  expect(ofThread(await takeUnsignalled(database))).toEqual([]);
  expect(ofThread(await sampleSignalled(database, 1_000))).toEqual([]);
  expect(await readPause(database, 'default', thread_id, '1')).toBeUndefined();
  expect(
    await straySettled(database, { tenant_id: 'default', thread_id, graph: 'idle', version: '1' }),
  ).toBeUndefined();
  await answer('q1');
  await database.query(
    `UPDATE ${database.table('runs')} SET created_at = now() - interval '1 hour' WHERE thread_id = $1`,
    [thread_id],
  );
  // The held run is older, and hides nothing.
  expect(ofThread(await takeUnsignalled(database))).toHaveLength(1);
});

test('input that is held for nothing is released by a sweep, and woken', async () => {
  const { held } = await holding(2);
  const released = async () =>
    (await step(releaseForgotten(at.database))).filter((one) => one.thread_id === thread_id);
  expect(await released()).toEqual([]);
  await at.database.query(
    `UPDATE ${at.database.table('interrupts')} SET status = 'superseded' WHERE thread_id = $1`,
    [thread_id],
  );
  expect(await released()).toHaveLength(1);
  await at.database.query(
    `UPDATE ${at.database.table('runs')} SET created_at = now() - interval '2 s' WHERE thread_id = $1`,
    [thread_id],
  );
  expect((await takeUnsignalled(at.database)).map(({ run_id }) => run_id)).toContain(held[0]);
  expect(await drain()).toEqual(held);
});
