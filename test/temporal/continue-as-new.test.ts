import { Annotation, interrupt, START, StateGraph } from '@langchain/langgraph';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { threadWorkflowId } from '../../src/contracts/ids.ts';
import { WAKE_SIGNAL } from '../../src/contracts/thread-workflow.ts';
import { until } from '../support/eventually.ts';
import { openInstallation, type Installation } from '../support/installation.ts';

const State = Annotation.Root({
  ask: Annotation<boolean>(),
  log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
});
const graph = new StateGraph(State)
  .addNode('node', ({ ask }) => (ask ? { log: [String(interrupt('go on?'))] } : {}))
  .addEdge(START, 'node')
  .compile();

let at: Installation;
beforeAll(async () => {
  at = await openInstallation();
  await at.startWorker({ graph });
});
afterAll(() => at.close());

const handleOf = (thread_id: string) =>
  at.temporal.workflow.getHandle(threadWorkflowId(at.schema, 'default', thread_id));

/** Fills the history with late wake-ups, which are harmless by themselves, until it is cut. */
async function fill(thread_id: string, run_id: string): Promise<void> {
  const { runId: before } = await handleOf(thread_id).describe();
  for (let sent = 0; sent < 1_000; sent += 50)
    await Promise.all(Array.from({ length: 50 }, () => handleOf(thread_id).signal(WAKE_SIGNAL, run_id)));
  await until(async () => (await handleOf(thread_id).describe()).runId !== before, 40_000);
}

test('a question outlives the end of its history: the same id, and its answer is taken', async () => {
  const first = await at.client.run({ graph: 'graph', input: { ask: true } });
  await fill(first.thread_id, first.run_id);
  expect(await at.client.readRun(first.run_id)).toEqual(first);
  const { run_id } = await at.client.answer(first.thread_id, 'yes', {
    interruptId: first.interrupts?.[0]?.id ?? '',
  });
  expect(await at.client.waitForRun(run_id)).toMatchObject({ status: 'success', values: { log: ['yes'] } });
});

test('runs that are asked for while the history is cut all run, once and in order', async () => {
  const thread_id = crypto.randomUUID();
  const { run_id } = await at.client.run({
    graph: 'graph',
    thread_id,
    input: { ask: false, log: ['first'] },
  });
  const filled = fill(thread_id, run_id);
  const asked: string[] = [];
  for (let n = 0; n < 30; n += 1)
    asked.push((await at.client.startRun({ graph: 'graph', thread_id, input: { log: [String(n)] } })).run_id);
  await filled;
  const last = await at.client.waitForRun(asked.at(-1) ?? '');
  expect(last.values).toMatchObject({ log: ['first', ...asked.map((_, n) => String(n))] });
  expect(await at.client.thread(thread_id)).toMatchObject({ status: 'idle', unfinished_runs: 0 });
});
