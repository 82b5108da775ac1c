import { entrypoint, getPreviousState, interrupt, task } from '@langchain/langgraph';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openInstallation, type Installation } from '../support/installation.ts';
import { ending, PlainThread } from '../support/plain.ts';

const calls: string[] = [];

const double = task('double', async (n: number) => n * 2);
const sums = entrypoint({ name: 'sums' }, async (numbers: number[]) => {
  const doubled = await Promise.all(numbers.map((n) => double(n)));
  return doubled.reduce((a, b) => a + b, 0);
});

const draft = task('draft', async (topic: string) => {
  calls.push(`draft ${topic}`);
  return `a text on ${topic}`;
});
const review = entrypoint({ name: 'review' }, async ({ topic }: { topic: string }) => {
  const text = await draft(topic);
  const first = interrupt({ text, round: 1 });
  const second = interrupt({ text, round: 2 });
  return { text, verdicts: [first, second] };
});

const flaky = new Map<string, number>();
const unsteady = task(
  { name: 'unsteady', retry: { maxAttempts: 3, initialInterval: 1, jitter: false, logWarning: false } },
  async (key: string) => {
    const tries = (flaky.get(key) ?? 0) + 1;
    flaky.set(key, tries);
    if (tries < 3) throw new Error(`try ${tries}`);
    return tries;
  },
);
const retrying = entrypoint({ name: 'retrying' }, async (key: string) => unsteady(key));

const total = entrypoint({ name: 'total' }, async (n: number) => {
  const before = getPreviousState<number>() ?? 0;
  return entrypoint.final({ value: { before }, save: before + n });
});

const asking = task('asking', async (who: string) => `${who}: ${String(interrupt(`ask ${who}`))}`);
const tasksThatAsk = entrypoint({ name: 'tasksThatAsk' }, async (names: string[]) =>
  Promise.all(names.map((name) => asking(name))),
);

const failing = entrypoint({ name: 'failing' }, async (text: string) => {
  throw new RangeError(`no ${text}`);
});

const graphs = { sums, review, retrying, total, tasksThatAsk, failing };

let at: Installation;
beforeAll(async () => {
  at = await openInstallation();
  await at.startWorker(graphs);
});
afterAll(() => at.close());

test('an entrypoint with parallel tasks gives its return value', async () => {
  const ours = await at.client.run({ graph: 'sums', input: [1, 2, 3] });
  expect(ours).toMatchObject({ status: 'success', values: 12 });
  expect(ending(ours)).toEqual(await new PlainThread(sums).run([1, 2, 3]));
});

test('a finished task is not run again after an answer', async () => {
  const plain = new PlainThread(review);
  const first = await at.client.run({ graph: 'review', input: { topic: 'tea' } });
  expect(calls.filter((call) => call === 'draft tea')).toHaveLength(1);
  expect(ending(first)).toEqual(await plain.run({ topic: 'tea' }));
  calls.length = 0;
  const second = await at.client.waitForRun((await at.client.answer(first.thread_id, false)).run_id);
  expect(ending(second)).toEqual(await plain.answer(false));
  expect(second.interrupts).toMatchObject([{ value: { text: 'a text on tea', round: 2 } }]);
  const last = await at.client.waitForRun((await at.client.answer(first.thread_id, 'fine')).run_id);
  expect(ending(last)).toEqual(await plain.answer('fine'));
  expect(last).toMatchObject({
    status: 'success',
    values: { text: 'a text on tea', verdicts: [false, 'fine'] },
  });
  expect(calls).toEqual([]);
});

test("a task's retry policy holds", async () => {
  expect(await at.client.run({ graph: 'retrying', input: crypto.randomUUID() })).toMatchObject({
    status: 'success',
    values: 3,
  });
});

test('the previous state reaches the next run', async () => {
  const plain = new PlainThread(total);
  const thread_id = crypto.randomUUID();
  for (const n of [1, 2, 3])
    expect(ending(await at.client.run({ graph: 'total', thread_id, input: n }))).toEqual(await plain.run(n));
});

test('tasks that ask in parallel are answered one by one, as in plain LangGraph', async () => {
  const plain = new PlainThread(tasksThatAsk);
  let last = await at.client.run({ graph: 'tasksThatAsk', input: ['x', 'y'] });
  expect(ending(last)).toEqual(await plain.run(['x', 'y']));
  for (const answer of ['one', 'two']) {
    last = await at.client.waitForRun((await at.client.answer(last.thread_id, answer)).run_id);
    expect(ending(last)).toEqual(await plain.answer(answer));
  }
  expect(last).toMatchObject({ status: 'success', values: ['x: one', 'y: two'] });
});

test('an error of an entrypoint ends the run as in plain LangGraph', async () => {
  expect(ending(await at.client.run({ graph: 'failing', input: 'luck' }))).toEqual(
    await new PlainThread(failing).run('luck'),
  );
});
