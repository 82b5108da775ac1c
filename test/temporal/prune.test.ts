import { Annotation, interrupt, START, StateGraph } from '@langchain/langgraph';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { DeltaChannel } from '@langchain/langgraph';
import type { PruneOptions } from '../../src/client/index.ts';
import type { ThreadPruning } from '../../src/contracts/pruning.ts';
import { operation } from '../../src/index.ts';
import { openInstallation, type Installation } from '../support/installation.ts';
import { tableContents } from '../support/table-contents.ts';

const State = Annotation.Root({
  v: Annotation<string>(),
  log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
  delta: new DeltaChannel<string[], string[]>((current, updates) => [...current, ...updates.flat()], {
    snapshotFrequency: 3,
  }) as unknown as ReturnType<typeof Annotation<string[]>>,
});
const LONG = 'a long line of the conversation. '.repeat(100);
const paid: string[] = [];
const inner = new StateGraph(State)
  .addNode('prepare', ({ v }) => ({ log: [`prepared ${v} ${LONG}`] }))
  .addNode('ask', ({ v }) => ({
    log: [v.startsWith('quiet') ? 'nothing to ask' : `said ${String(interrupt({ about: v }))}`],
  }))
  .addEdge(START, 'prepare')
  .addEdge('prepare', 'ask')
  .compile();
let release = () => {};
const graphs = {
  chat: new StateGraph(State)
    .addNode('note', ({ v }) => ({ delta: [v] }))
    .addNode('sub', async ({ v }) => ({ log: (await inner.invoke({ v })).log }))
    .addNode('pay', async ({ v }) => ({
      log: [
        await operation('pay', { kind: 'idempotent', args: { v } }, () => {
          paid.push(v);
          return `paid ${v}`;
        }),
      ],
    }))
    .addEdge(START, 'note')
    .addEdge('note', 'sub')
    .addEdge('sub', 'pay')
    .compile(),
  waits: new StateGraph(State)
    .addNode('wait', () => new Promise((done) => (release = () => done({ log: ['done'] }))))
    .addEdge(START, 'wait')
    .compile(),
};

let at: Installation;
beforeAll(async () => {
  at = await openInstallation('prune');
  await at.startWorker(graphs);
});
afterAll(() => at.close());

const say = (thread_id: string, v: string) => at.client.run({ graph: 'chat', thread_id, input: { v } });
async function answer(thread: string, value: string) {
  const { run_id } = await at.client.answer(thread, value);
  return at.client.waitForRun(run_id);
}
async function prune(options: PruneOptions): Promise<ThreadPruning[]> {
  const all: ThreadPruning[] = [];
  for await (const one of at.client.prune({ actor: 'user:mira', ...options })) all.push(one);
  return all;
}
const short = (log: unknown) => (log as string[]).map((line) => line.replace(` ${LONG}`, ''));

test('a pending question stays, is answered, and its node goes on with the whole state', async () => {
  const thread = 'asks';
  for (let turn = 1; turn <= 4; turn += 1) await say(thread, `quiet ${turn}`);
  const asked = await say(thread, 'loud');
  expect(asked.status).toBe('interrupted');
  const [before, history] = [await tableContents(at.database), await at.client.history(thread)];
  const [dry] = await prune({ threadIds: [thread], keepLast: 1, dryRun: true });
  expect(await tableContents(at.database)).toEqual(before);
  const [done] = await prune({ threadIds: [thread], keepLast: 1 });
  expect({ ...dry, outcome: 'pruned' }).toEqual(done);
  expect(done).toMatchObject({ thread_id: thread, graph: 'chat', outcome: 'pruned' });
  const left = await at.client.history(thread);
  expect(left.map((one) => one.checkpoint_id)).toEqual(
    history.slice(0, left.length).map((one) => one.checkpoint_id),
  );
  expect(left.length).toBe(history.length - (done?.root_checkpoints ?? 0));
  expect(left.length).toBeLessThan(8);
  expect(await at.client.interrupts({ thread_id: thread, status: 'pending' })).toMatchObject([
    { value: { about: 'loud' } },
  ]);
  const ended = await answer(thread, 'yes');
  expect(ended.status).toBe('success');
  const { log, delta } = ended.values as { log: string[]; delta: string[] };
  expect(delta).toEqual(['quiet 1', 'quiet 2', 'quiet 3', 'quiet 4', 'loud']);
  expect(short(log).slice(-3)).toEqual(['prepared loud', 'said yes', 'paid loud']);
  expect(log).toHaveLength(15);
  expect(paid.filter((one) => one === 'loud')).toEqual(['loud']);
  // And the ledger is as it was.
  expect((await at.client.operations({ threadId: thread })).length).toBe(5);
});

test('what went is named as pruned, and an old run has no output any more', async () => {
  const thread = 'asks-for-old';
  const first = await say(thread, 'quiet 1');
  const old = (await at.client.history(thread)).at(0)?.checkpoint_id ?? '';
  for (let turn = 2; turn <= 4; turn += 1) await say(thread, `quiet ${turn}`);
  const [head] = await at.client.history(thread);
  await prune({ threadIds: [thread], keepLast: 1 });
  const pruned = { code: 'CHECKPOINT_PRUNED', details: { thread_id: thread, checkpoint_id: old } };
  await expect(at.client.fork(thread, { checkpointId: old })).rejects.toMatchObject(pruned);
  await expect(at.client.copyThread(thread, { checkpointId: old })).rejects.toMatchObject(pruned);
  await expect(at.client.diff(thread, old, head?.checkpoint_id ?? '')).rejects.toMatchObject(pruned);
  const never = 'ffffffff-ffff-6fff-bfff-ffffffffffff';
  await expect(at.client.fork(thread, { checkpointId: never })).rejects.toMatchObject({
    code: 'CHECKPOINT_UNKNOWN',
  });
  const run = await at.client.readRun(first.run_id);
  expect(run).toMatchObject({ status: 'success', output_pruned_at: expect.stringMatching(/^20/) as string });
  expect(run).not.toHaveProperty('values');
  const forked = await at.client.fork(thread, { checkpointId: head?.checkpoint_id ?? '' });
  expect((await at.client.waitForRun(forked.run_id)).status).toBe('success');
});

test('a branch ends and begins where it did, and goes on', async () => {
  const thread = 'branches';
  await say(thread, 'quiet 1');
  const at1 = (await at.client.history(thread)).find((one) => one.pending_tasks.includes('pay'));
  await say(thread, 'quiet 2');
  const end = (await at.client.history(thread))[0]?.checkpoint_id ?? '';
  const run = await at.client.fork(thread, { checkpointId: at1?.checkpoint_id ?? '', effects: 'live' });
  await at.client.waitForRun(run.run_id);
  await say(thread, 'quiet 3');
  const [done] = await prune({ threadIds: [thread], keepLast: 1 });
  expect(done?.kept).toMatchObject({ policy: 1, branch: 1, fork: 1 });
  const left = await at.client.history(thread);
  const ids = left.map((one) => one.checkpoint_id);
  expect(ids).toContain(end);
  expect(ids).toContain(at1?.checkpoint_id);
  // Each hangs together, so that the tree can be drawn.
  expect(left.filter((one) => !ids.includes(one.parent_checkpoint_id ?? '')).length).toBe(1);
  const back = await at.client.fork(thread, {
    checkpointId: end,
    values: { v: 'quiet 4' },
    asNode: '__start__',
  });
  const { values } = await at.client.waitForRun(back.run_id);
  const seen = await at.client.interrupts({ thread_id: thread, status: 'pending' });
  if (seen.length === 0)
    expect((values as { delta: string[] }).delta).toEqual(['quiet 1', 'quiet 2', 'quiet 4']);
  const copy = await at.client.copyThread(thread, { checkpointId: end });
  expect((await at.client.history(copy.thread_id)).length).toBeGreaterThan(0);
});

test('a thread with a run in hand is left alone, others are not', async () => {
  for (let turn = 1; turn <= 3; turn += 1) await say('beside', `quiet ${turn}`);
  const run = await at.client.startRun({ graph: 'waits', thread_id: 'waits', input: { v: 'w' } });
  await expect
    .poll(async () => (await at.client.history('waits')).length, { timeout: 20_000 })
    .toBeGreaterThan(0);
  const outcomes = new Map((await prune({ keepLast: 1 })).map((one) => [one.thread_id, one.outcome]));
  expect(outcomes.get('waits')).toBe('busy');
  expect(outcomes.get('beside')).toBe('pruned');
  expect((await prune({ keepLast: 1, graph: 'waits' })).map((one) => one.thread_id)).toEqual(['waits']);
  release();
  expect((await at.client.waitForRun(run.run_id)).status).toBe('success');
});

test('nothing goes while nothing says what to keep', async () => {
  await expect(prune({})).rejects.toMatchObject({ code: 'INPUT_INVALID' });
  await expect(prune({ keepLast: 0 })).rejects.toMatchObject({ code: 'INPUT_INVALID' });
  await expect(prune({ olderThan: 'a while' })).rejects.toMatchObject({ code: 'INPUT_INVALID' });
  await expect(prune({ keepLast: 1, threadIds: ['nobody'] })).rejects.toMatchObject({
    code: 'THREAD_UNKNOWN',
  });
});
