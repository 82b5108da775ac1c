import { Annotation, interrupt, START, StateGraph, type LangGraphRunnableConfig } from '@langchain/langgraph';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { threadWorkflowId } from '../../src/contracts/ids.ts';
import { CANCEL_SIGNAL } from '../../src/contracts/thread-workflow.ts';
import { cancelThread } from '../../src/threads/cancel.ts';
import { eventually, until } from '../support/eventually.ts';
import { openInstallation, type Installation } from '../support/installation.ts';

const State = Annotation.Root({
  key: Annotation<string>(),
  log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
});

/** When a node began, and when it was told to stop, by the key of its input. */
const begun = new Map<string, number>();
const told = new Map<string, number>();
/** Nodes that wait here until they are let go. */
const held = new Map<string, () => void>();

const obedient = new StateGraph(State)
  .addNode('wait', async ({ key }, { signal }: LangGraphRunnableConfig) => {
    begun.set(key, Date.now());
    await new Promise<void>((_resolve, reject) => {
      signal?.addEventListener('abort', () => {
        told.set(key, Date.now());
        reject(new Error('told to stop'));
      });
    });
    return { log: ['never'] };
  })
  .addEdge(START, 'wait')
  .compile();

/** Pays no attention to the signal. */
const deaf = new StateGraph(State)
  .addNode('wait', async ({ key }) => {
    begun.set(key, Date.now());
    await new Promise<void>((resolve) => held.set(key, resolve));
    return { log: ['late'] };
  })
  .addEdge(START, 'wait')
  .compile();

const asking = new StateGraph(State)
  .addNode('ask', () => ({ log: [String(interrupt('go on?'))] }))
  .addEdge(START, 'ask')
  .compile();

let at: Installation;
beforeAll(async () => {
  at = await openInstallation();
  await at.startWorker({ obedient, deaf, asking });
});
afterAll(async () => {
  for (const letGo of held.values()) letGo();
  await at.close();
});

async function start(graph: string, thread_id: string = crypto.randomUUID()) {
  const key = crypto.randomUUID();
  const run = await at.client.startRun({ graph, thread_id, input: { key, log: [] } });
  return { ...run, key };
}

test('a running node is told by its signal within about a second, and the run ends as cancelled', async () => {
  const { thread_id, run_id, key } = await start('obedient');
  await until(() => begun.has(key));
  const asked = Date.now();
  expect(await at.client.cancel(thread_id)).toMatchObject({ stopping_run: run_id, cancelled_runs: [] });
  expect(await at.client.waitForRun(run_id)).toMatchObject({ status: 'cancelled' });
  expect((told.get(key) ?? Number.POSITIVE_INFINITY) - asked).toBeLessThan(2_500);
  expect(await at.client.thread(thread_id)).toMatchObject({ status: 'idle', unfinished_runs: 0 });
});

test('the runs behind it are cancelled as well; later ones run', async () => {
  const first = await start('obedient');
  const queued = await start('obedient', first.thread_id);
  await until(() => begun.has(first.key));
  expect(await at.client.cancel(first.thread_id)).toMatchObject({
    stopping_run: first.run_id,
    cancelled_runs: [queued.run_id],
  });
  expect(await at.client.waitForRun(queued.run_id)).toMatchObject({ status: 'cancelled' });
  const later = await start('obedient', first.thread_id);
  await until(() => begun.has(later.key));
  expect(begun.has(queued.key)).toBe(false);
  await at.client.cancel(first.thread_id);
  expect(await at.client.waitForRun(later.run_id)).toMatchObject({ status: 'cancelled' });
});

test('a node that hears nothing writes nothing any more once its run was cancelled', async () => {
  const { thread_id, run_id, key } = await start('deaf');
  await until(() => held.has(key));
  await at.client.cancel(thread_id);
  const { status } = await at.client.waitForRun(run_id);
  expect(status).toBe('cancelled');
  const before = await at.client.history(thread_id);
  held.get(key)?.();
  const next = await start('deaf', thread_id);
  await eventually(() => held.get(next.key)).then((letGo) => letGo());
  const last = await at.client.waitForRun(next.run_id);
  expect(last).toMatchObject({ status: 'success', values: { log: ['late'] } });
  const after = await at.client.history(thread_id);
  expect(after.slice(-before.length)).toEqual(before);
  expect(new Set(after.slice(0, -before.length).map((entry) => entry.run_id))).toEqual(
    new Set([next.run_id]),
  );
});

test('a run that had not begun is cancelled without a worker', async () => {
  await at.register({ unserved: asking });
  const { thread_id, run_id } = await start('unserved');
  expect(await at.client.cancel(thread_id)).toMatchObject({ stopping_run: null, cancelled_runs: [run_id] });
  expect(await at.client.waitForRun(run_id)).toMatchObject({ status: 'cancelled' });
});

test('cancelling a thread that waits for a person withdraws its questions', async () => {
  const { thread_id, run_id } = await start('asking');
  const { interrupts } = await at.client.waitForRun(run_id);
  const interruptId = interrupts?.[0]?.id ?? '';
  expect(await at.client.cancel(thread_id)).toMatchObject({
    cancelled_runs: [run_id],
    withdrawn_interrupts: [interruptId],
  });
  expect(await at.client.thread(thread_id)).toMatchObject({ status: 'idle', pending_interrupts: 0 });
  await expect(at.client.answer(thread_id, 'yes', { interruptId })).rejects.toMatchObject({
    code: 'INTERRUPT_UNKNOWN',
    details: { status: 'cancelled' },
  });
  await expect(at.client.answer(thread_id, 'yes')).rejects.toMatchObject({ code: 'INTERRUPT_UNKNOWN' });
  expect(await at.client.cancel(thread_id)).toMatchObject({
    cancelled_runs: [],
    withdrawn_interrupts: [],
    stopping_run: null,
  });
  const again = await start('asking', thread_id);
  const asked = await at.client.waitForRun(again.run_id);
  expect(asked.interrupts).toMatchObject([{ value: 'go on?' }]);
  expect(asked.interrupts?.[0]?.id).not.toBe(interruptId);
});

test('a thread that nobody knows is not cancelled', async () => {
  await expect(at.client.cancel('nobody')).rejects.toMatchObject({ code: 'THREAD_UNKNOWN' });
});

test('a cancel of which Temporal was never told reaches the node all the same', async () => {
  const { thread_id, run_id, key } = await start('obedient');
  await until(() => begun.has(key));
  await cancelThread(at.database, 'default', thread_id);
  expect(await at.client.waitForRun(run_id)).toMatchObject({ status: 'cancelled' });
});

test('a cancel that comes too late, for a run that has ended, does not end the next one', async () => {
  const { thread_id, run_id, key } = await start('deaf');
  await until(() => held.has(key));
  await at.temporal.workflow
    .getHandle(threadWorkflowId(at.schema, 'default', thread_id))
    .signal(CANCEL_SIGNAL, crypto.randomUUID());
  const first = held.get(key);
  // The segment is stopped, and the run taken up again, at once.
  const again = await eventually(() => (held.get(key) === first ? undefined : held.get(key)), 5_000);
  again();
  expect(await at.client.waitForRun(run_id)).toMatchObject({ status: 'success', values: { log: ['late'] } });
});
