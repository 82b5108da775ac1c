import { Annotation, interrupt, START, StateGraph } from '@langchain/langgraph';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { threadWorkflowId } from '../../src/contracts/ids.ts';
import { askPerson, sleep, sleepUntil } from '../../src/index.ts';
import { eventually, until } from '../support/eventually.ts';
import { openInstallation, type Installation } from '../support/installation.ts';

const State = Annotation.Root({
  how: Annotation<string | number>(),
  log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
});

let passes = 0;
const napping = new StateGraph(State)
  .addNode('nap', async ({ how }) => {
    passes += 1;
    await sleep(how);
    return { log: ['awake'] };
  })
  .addEdge(START, 'nap')
  .compile();

/** Sleeps until a date that has passed, asks, sleeps again: the answers must reach their own questions. */
const mixed = new StateGraph(State)
  .addNode('all', async () => {
    await sleepUntil(new Date(0));
    const first: unknown = interrupt('first?');
    await sleep('200ms');
    const second: unknown = await askPerson('second?', { after: '1 day', answer: 'none' });
    return { log: [String(first), String(second)] };
  })
  .addEdge(START, 'all')
  .compile();

/** One sleeps, the other asks. */
const both = new StateGraph(State)
  .addNode('sleeper', async ({ how }) => {
    await sleep(how);
    return { log: ['slept'] };
  })
  .addNode('asker', () => ({ log: [String(interrupt('yes?'))] }))
  .addEdge(START, 'sleeper')
  .addEdge(START, 'asker')
  .compile();

let at: Installation;
beforeAll(async () => {
  at = await openInstallation();
  await at.startWorker({ napping, mixed, both });
});
afterAll(() => at.close());

const idle = (thread: string) => until(async () => (await at.client.thread(thread)).status === 'idle');
const workflow = (thread: string) =>
  at.temporal.workflow.getHandle(threadWorkflowId(at.schema, 'default', thread));
const newest = async (thread: string) => at.client.readRun((await at.client.runs(thread))[0]?.run_id ?? '');

test('a node sleeps, the thread shows until when, and goes on by itself', async () => {
  passes = 0;
  const run = await at.client.run({ graph: 'napping', input: { how: '1s' } });
  expect(run).toMatchObject({ status: 'interrupted', interrupts: [{ kind: 'timer', node: 'nap' }] });
  const thread = await at.client.thread(run.thread_id);
  expect(thread).toMatchObject({ status: 'sleeping', pending_interrupts: 0 });
  const dueAt = run.interrupts?.[0]?.due_at;
  expect(thread.sleeps_until).toBe(dueAt);
  expect(run.interrupts?.[0]?.value).toEqual({ type: 'sleep', until: dueAt });
  expect(await at.client.interrupts({ thread_id: run.thread_id, for_people: true })).toEqual([]);
  expect(await at.client.threads({ status: 'sleeping' })).toMatchObject([{ thread_id: run.thread_id }]);
  await idle(run.thread_id);
  expect(await newest(run.thread_id)).toMatchObject({ status: 'success', values: { log: ['awake'] } });
  expect(passes).toBe(2);
  const [woken] = await at.client.runs(run.thread_id);
  expect(Date.parse(woken?.created_at ?? '')).toBeGreaterThanOrEqual(Date.parse(dueAt ?? ''));
});

test('40 days stand in Postgres and in Temporal’s timer, to the second', async () => {
  const days = 40 * 86_400;
  const before = Date.now();
  const run = await at.client.run({ graph: 'napping', input: { how: '40 days' } });
  const sleepsFor = Date.parse(run.interrupts?.[0]?.due_at ?? '') - before;
  expect(Math.abs(sleepsFor / 1_000 - days)).toBeLessThan(60);
  const timer = await eventually(async () => {
    const { events } = await workflow(run.thread_id).fetchHistory();
    return (events ?? []).flatMap((event) => event.timerStartedEventAttributes ?? [])[0];
  });
  expect(Math.abs(Number(timer.startToFireTimeout?.seconds) - days)).toBeLessThan(60);
  // 40 days later: what Postgres says counts, and the sweeper finds it whatever the timer does.
  await at.database.query(
    `UPDATE ${at.database.table('interrupts')} SET due_at = now() WHERE thread_id = $1 AND status = 'pending'`,
    [run.thread_id],
  );
  await idle(run.thread_id);
  expect(await newest(run.thread_id)).toMatchObject({ status: 'success', values: { log: ['awake'] } });
});

test('a sleeping thread can be woken early by naming its question, and no other answer wakes it', async () => {
  const run = await at.client.run({ graph: 'napping', input: { how: '40 days' } });
  await expect(at.client.answer(run.thread_id, 'yes')).rejects.toMatchObject({ code: 'INTERRUPT_UNKNOWN' });
  const woken = await at.client.answer(run.thread_id, null, {
    interruptId: run.interrupts?.[0]?.id ?? '',
    actor: 'user:mira',
  });
  expect(await at.client.waitForRun(woken.run_id)).toMatchObject({ values: { log: ['awake'] } });
});

test('a sleeping thread can be cancelled', async () => {
  const run = await at.client.run({ graph: 'napping', input: { how: '40 days' } });
  expect(await at.client.cancel(run.thread_id)).toMatchObject({ cancelled_runs: [run.run_id] });
  expect(await at.client.thread(run.thread_id)).toMatchObject({ status: 'idle', sleeps_until: null });
});

test('sleeping and asking in one node, answers reach their own questions', async () => {
  const { thread_id } = await at.client.run({ graph: 'mixed', input: {} });
  const asked = (value: string) =>
    until(async () =>
      (await at.client.interrupts({ thread_id, status: 'pending' })).some((one) => one.value === value),
    );
  await asked('first?');
  await at.client.answer(thread_id, 'one');
  await asked('second?');
  const { run_id } = await at.client.answer(thread_id, 'two');
  expect(await at.client.waitForRun(run_id)).toMatchObject({ values: { log: ['one', 'two'] } });
});

test('beside one that sleeps another node asks: an answer without an id is for the question', async () => {
  const { thread_id } = await at.client.run({ graph: 'both', input: { how: '2s' } });
  expect(await at.client.thread(thread_id)).toMatchObject({ status: 'interrupted', pending_interrupts: 1 });
  const { run_id } = await at.client.answer(thread_id, 'yes');
  await at.client.waitForRun(run_id);
  expect(await at.client.thread(thread_id)).toMatchObject({ status: 'sleeping' });
  await idle(thread_id);
  expect(await newest(thread_id)).toMatchObject({ values: { log: ['yes', 'slept'] } });
});

test.each(['a while', '1 month', -1, '101 years', Number.NaN])('sleep(%j) is refused', async (how) => {
  await expect(sleep(how)).rejects.toMatchObject({ code: 'INPUT_INVALID' });
});

test('outside of a run nobody would wake the graph', async () => {
  await expect(sleep('1s')).rejects.toMatchObject({ code: 'OUTSIDE_RUN' });
  await expect(sleepUntil('never')).rejects.toMatchObject({ code: 'INPUT_INVALID' });
});
