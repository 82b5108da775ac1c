import { Annotation, interrupt, START, StateGraph } from '@langchain/langgraph';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { threadWorkflowId } from '../../src/contracts/ids.ts';
import { answerInterrupt } from '../../src/threads/answer.ts';
import { requestRun } from '../../src/threads/request-run.ts';
import { eventually, until } from '../support/eventually.ts';
import { openInstallation, type Installation } from '../support/installation.ts';
import type { ThreadWorker } from '../../workers/thread-worker.ts';

const State = Annotation.Root({
  key: Annotation<string>(),
  log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
});

const entered: string[] = [];
const held = new Map<string, () => void>();
const graph = new StateGraph(State)
  .addNode('work', ({ key }) => {
    entered.push(key);
    return { log: ['worked'] };
  })
  .addNode('ask', ({ key }) => {
    const answer = String(interrupt('go on?'));
    entered.push(`${key} ${answer}`);
    return { log: [answer] };
  })
  .addEdge(START, 'work')
  .addEdge('work', 'ask')
  .compile();
const slow = new StateGraph(State)
  .addNode('first', ({ key }) => {
    entered.push(`${key} first`);
    return {};
  })
  .addNode('wait', async ({ key }) => {
    entered.push(`${key} wait`);
    await new Promise<void>((resolve) => held.set(key, resolve));
    return { log: ['waited'] };
  })
  .addEdge(START, 'first')
  .addEdge('first', 'wait')
  .compile();
const graphs = { graph, slow };

let at: Installation;
const workers: ThreadWorker[] = [];
beforeAll(async () => {
  at = await openInstallation();
  await at.register(graphs);
});
afterEach(async () => {
  for (const letGo of held.values()) letGo();
  held.clear();
  await Promise.all(workers.splice(0).map((worker) => worker.stop()));
});
afterAll(() => at.close());

const startWorker = async () => {
  const worker = await at.startWorker(graphs);
  workers.push(worker);
  return worker;
};
const request = (name: keyof typeof graphs = 'graph', key: string = crypto.randomUUID()) => ({
  key,
  graph: name,
  thread_id: key,
  input: { key, log: [] },
});
const count = (entry: string) => entered.filter((one) => one === entry).length;
const workflowOf = (thread_id: string) =>
  at.temporal.workflow.getHandle(threadWorkflowId(at.schema, 'default', thread_id));

test('runs and answers that are given while no worker is up complete once when one comes', async () => {
  const asked = [request(), request(), request()];
  const runs = await Promise.all(asked.map(({ key: _key, ...one }) => at.client.startRun(one)));
  expect(await Promise.all(runs.map(async ({ run_id }) => (await at.client.readRun(run_id)).status))).toEqual(
    ['pending', 'pending', 'pending'],
  );
  const first = await startWorker();
  await Promise.all(runs.map(({ run_id }) => at.client.waitForRun(run_id)));
  await first.stop();
  const answers = await Promise.all(runs.map(({ thread_id }) => at.client.answer(thread_id, 'yes')));
  expect((await at.client.readRun(answers[0]?.run_id ?? '')).status).toBe('pending');
  await startWorker();
  for (const [index, { run_id }] of answers.entries()) {
    expect(await at.client.waitForRun(run_id)).toMatchObject({
      status: 'success',
      values: { log: ['worked', 'yes'] },
    });
    expect([count(asked[index]?.key ?? ''), count(`${asked[index]?.key} yes`)]).toEqual([1, 1]);
  }
});

test('runs that queue on one thread signal it once, and are all run', async () => {
  const { key, ...one } = request();
  const runs = [];
  for (let n = 0; n < 40; n += 1) runs.push(await at.client.startRun(one));
  await startWorker();
  for (const { run_id } of runs) expect((await at.client.waitForRun(run_id)).status).toBe('interrupted');
  expect(count(key)).toBe(40);
  const { events } = await workflowOf(key).fetchHistory();
  // The sweeper may have looked in between two runs.
  expect(events?.filter((event) => event.workflowExecutionSignaledEventAttributes).length).toBeLessThan(10);
});

test('a run and an answer that were recorded, but of which nobody told Temporal, are found by the sweeper', async () => {
  await startWorker();
  const { key, ...one } = request();
  const run = await requestRun(at.database, 'default', one);
  expect(await at.client.waitForRun(run.run_id)).toMatchObject({ status: 'interrupted' });
  const answered = await answerInterrupt(at.database, 'default', {
    thread_id: key,
    value: 'yes',
    actor: 'user:test',
  });
  expect(await at.client.waitForRun(answered.run_id)).toMatchObject({ status: 'success' });
  expect([count(key), count(`${key} yes`)]).toEqual([1, 1]);
});

test('an answer whose worker is gone is taken by another within seconds', async () => {
  const first = await startWorker();
  const { key, ...one } = request();
  await at.client.run(one);
  await Promise.all([first.stop(), startWorker()]);
  const asked = Date.now();
  const { run_id } = await at.client.answer(key, 'yes');
  expect(await at.client.waitForRun(run_id)).toMatchObject({
    status: 'success',
    values: { log: ['worked', 'yes'] },
  });
  expect(Date.now() - asked).toBeLessThan(4_000);
});

test('a waiting thread whose history is lost goes on with the answer', async () => {
  await startWorker();
  const { key, ...one } = request();
  await at.client.run(one);
  await workflowOf(key).terminate('lost');
  const { run_id } = await at.client.answer(key, 'yes');
  expect(await at.client.waitForRun(run_id)).toMatchObject({
    status: 'success',
    values: { log: ['worked', 'yes'] },
  });
  expect([count(key), count(`${key} yes`)]).toEqual([1, 1]);
});

test('a running thread whose history is deleted goes on, from its last checkpoint', async () => {
  await startWorker();
  const { key, ...one } = request('slow');
  const { run_id } = await at.client.startRun(one);
  await eventually(() => held.get(key));
  const workflowId = threadWorkflowId(at.schema, 'default', key);
  await workflowOf(key).terminate('lost');
  await at.temporal.workflowService.deleteWorkflowExecution({
    namespace: 'default',
    workflowExecution: { workflowId },
  });
  // The sweeper looks again after a time that is too long for a test.
  await at.database.query(
    `UPDATE ${at.database.table('runs')} SET signalled_at = now() - interval '1 day' WHERE run_id = $1`,
    [run_id],
  );
  await until(() => count(`${key} wait`) === 2);
  held.get(key)?.();
  expect(await at.client.waitForRun(run_id)).toMatchObject({
    status: 'success',
    values: { log: ['waited'] },
  });
  expect(count(`${key} first`)).toBe(1);
});

test('a second workflow attempt shuts the first out: a node that comes back late writes nothing', async () => {
  await startWorker();
  const { key, ...one } = request('slow');
  const { run_id } = await at.client.startRun(one);
  const late = await eventually(() => held.get(key));
  await workflowOf(key).terminate('lost');
  await at.database.query(
    `UPDATE ${at.database.table('runs')} SET signalled_at = now() - interval '1 day' WHERE run_id = $1`,
    [run_id],
  );
  const newer = await eventually(() => (held.get(key) === late ? undefined : held.get(key)));
  late();
  newer();
  expect(await at.client.waitForRun(run_id)).toMatchObject({
    status: 'success',
    values: { log: ['waited'] },
  });
  const history = await at.client.history(key);
  expect(history.map(({ superstep }) => superstep)).toEqual([2, 1, 0, -1]);
});
