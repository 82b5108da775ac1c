import { Annotation, END, interrupt, Send, START, StateGraph } from '@langchain/langgraph';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { JsonValue } from '../../src/contracts/json.ts';
import { openInstallation, type Installation } from '../support/installation.ts';
import { ending, PlainThread } from '../support/plain.ts';

const append = () => Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] });
const State = Annotation.Root({ log: append(), name: Annotation<string>() });

const inARow = new StateGraph(State)
  .addNode('form', () => {
    const answers = ['name', 'colour', 'size'].map((field) => String(interrupt({ field })));
    return { log: answers };
  })
  .addEdge(START, 'form')
  .compile();

const parallel = new StateGraph(State)
  .addNode('left', () => ({ log: [`left ${String(interrupt('left?'))}`] }))
  .addNode('right', () => ({ log: [`right ${String(interrupt('right?'))}`] }))
  .addNode('quiet', () => ({ log: ['quiet'] }))
  .addNode('join', ({ log }) => ({ log: [`joined ${log.length}`] }))
  .addEdge(START, 'left')
  .addEdge(START, 'right')
  .addEdge(START, 'quiet')
  .addEdge(['left', 'right', 'quiet'], 'join')
  .addEdge('join', END)
  .compile();

const steps = new StateGraph(State)
  .addNode('a', () => ({ log: ['a'] }))
  .addNode('b', () => ({ log: ['b'] }))
  .addNode('c', () => ({ log: ['c'] }))
  .addEdge(START, 'a')
  .addEdge('a', 'b')
  .addEdge('b', 'c')
  .addEdge('c', END);
const stopping = steps.compile({ interruptBefore: ['b'], interruptAfter: ['b'] });
const free = steps.compile();

const sends = new StateGraph(State)
  .addNode('one', ({ name }) => ({ log: [`${name} ${String(interrupt(name))}`] }))
  .addConditionalEdges(START, () => ['x', 'y', 'z'].map((name) => new Send('one', { name })), ['one'])
  .addEdge('one', END)
  .compile();

const graphs = { inARow, parallel, stopping, free, sends };

let at: Installation;
beforeAll(async () => {
  at = await openInstallation();
  await at.startWorker(graphs);
});
afterAll(() => at.close());

async function answerBoth(thread: string, plain: PlainThread, value: JsonValue, place = 0) {
  const pending = await at.client.interrupts({ thread_id: thread, status: 'pending' });
  const { run_id } = await at.client.answer(thread, value, { interruptId: pending[place]?.id ?? '' });
  const ours = await at.client.waitForRun(run_id);
  expect(ending(ours)).toEqual(await plain.answer(value, place));
  return ours;
}

test('several questions of one node come one after the other, each with an id of its own', async () => {
  const plain = new PlainThread(inARow);
  const first = await at.client.run({ graph: 'inARow', input: { log: [] } });
  expect(ending(first)).toEqual(await plain.run({ log: [] }));
  const ids = [first.interrupts?.[0]?.id];
  let last = first;
  for (const answer of ['Mira', 'blue', 'large']) {
    last = await answerBoth(first.thread_id, plain, answer);
    ids.push(last.interrupts?.[0]?.id);
  }
  expect(last).toMatchObject({ status: 'success', values: { log: ['Mira', 'blue', 'large'] } });
  expect(new Set(ids.slice(0, 3)).size).toBe(3);
  const asked = await at.client.interrupts({ thread_id: first.thread_id });
  expect(asked.map(({ status, answer }) => [status, answer])).toEqual([
    ['answered', 'Mira'],
    ['answered', 'blue'],
    ['answered', 'large'],
  ]);
});

test.each([[[0, 0]], [[1, 0]]])('parallel questions are answered in any order: %j', async (order) => {
  const plain = new PlainThread(parallel);
  const first = await at.client.run({ graph: 'parallel', input: { log: [] } });
  expect(ending(first)).toEqual(await plain.run({ log: [] }));
  expect(first.next?.toSorted()).toEqual(['left', 'right']);
  for (const place of order) await answerBoth(first.thread_id, plain, `answer ${place}`, place);
  expect((await at.client.thread(first.thread_id)).status).toBe('idle');
});

test('answers to parallel questions given at once are all taken', async () => {
  const first = await at.client.run({ graph: 'sends', input: { log: [] } });
  const questions = first.interrupts ?? [];
  const answers = await Promise.all(
    questions.map(({ id, value }) =>
      at.client.answer(first.thread_id, `to ${JSON.stringify(value)}`, { interruptId: id }),
    ),
  );
  const ends = await Promise.all(answers.map(({ run_id }) => at.client.waitForRun(run_id)));
  const last = ends.find(({ status }) => status === 'success');
  expect(last?.values).toMatchObject({ log: ['x to "x"', 'y to "y"', 'z to "z"'] });
  expect(ends.filter(({ status }) => status === 'interrupted')).toHaveLength(2);
});

test('a static interrupt stops before and after a node, and continueThread goes on', async () => {
  const plain = new PlainThread(stopping);
  const first = await at.client.run({ graph: 'stopping', input: { log: [] } });
  expect(ending(first)).toEqual(await plain.run({ log: [] }));
  expect(first).toMatchObject({ status: 'interrupted', interrupts: [], next: ['b'] });
  const second = await at.client.waitForRun((await at.client.continueThread(first.thread_id)).run_id);
  expect(ending(second)).toEqual(await plain.run(null));
  expect(second).toMatchObject({ status: 'interrupted', interrupts: [], next: ['c'] });
  const last = await at.client.waitForRun((await at.client.continueThread(first.thread_id)).run_id);
  expect(ending(last)).toEqual(await plain.run(null));
  expect(last.status).toBe('success');
});

test.each([
  ['before b', { interrupt_before: ['b'] }],
  ['after a and c', { interrupt_after: ['a', 'c'] }],
  ['before every node', { interrupt_before: '*' as const }],
  ['before and after every node', { interrupt_before: '*' as const, interrupt_after: '*' as const }],
])('a static interrupt of the run config stops %s, and holds for the runs that go on', async (_, config) => {
  const plain = new PlainThread(free, config);
  const input = { log: [] };
  let ours = await at.client.run({ graph: 'free', input, config });
  let theirs = await plain.run(input);
  expect(ending(ours)).toEqual(theirs);
  let stops = 0;
  while (theirs.status === 'interrupted' && stops < 10) {
    stops += 1;
    ours = await at.client.waitForRun((await at.client.continueThread(ours.thread_id)).run_id);
    theirs = await plain.run(null);
    expect(ending(ours)).toEqual(theirs);
  }
  expect([stops > 0, ours.status]).toEqual([true, 'success']);
});

test('there is nothing to go on with on a thread that ended, that waits for an answer, or that nobody knows', async () => {
  const ended = await at.client.run({ graph: 'free', input: { log: [] } });
  await expect(at.client.continueThread(ended.thread_id)).rejects.toMatchObject({ code: 'INPUT_INVALID' });
  const waiting = await at.client.run({ graph: 'inARow', input: { log: [] } });
  await expect(at.client.continueThread(waiting.thread_id)).rejects.toMatchObject({
    code: 'INPUT_INVALID',
    details: { pending: [waiting.interrupts?.[0]?.id] },
  });
  await expect(at.client.continueThread('nobody')).rejects.toMatchObject({ code: 'THREAD_UNKNOWN' });
});

test('new input overtakes a pending question: it is superseded, and an answer to it refused', async () => {
  const plain = new PlainThread(inARow);
  const first = await at.client.run({ graph: 'inARow', input: { log: ['one'] } });
  await plain.run({ log: ['one'] });
  const old = first.interrupts?.[0]?.id ?? '';
  const second = await at.client.run({
    graph: 'inARow',
    thread_id: first.thread_id,
    input: { log: ['two'] },
  });
  expect(ending(second)).toEqual(await plain.run({ log: ['two'] }));
  const [now] = second.interrupts ?? [];
  expect(now?.id).not.toBe(old);
  await expect(at.client.answer(first.thread_id, 'late', { interruptId: old })).rejects.toMatchObject({
    code: 'INTERRUPT_UNKNOWN',
    details: { status: 'superseded' },
  });
  const { run_id } = await at.client.answer(first.thread_id, 'Mira');
  expect(ending(await at.client.waitForRun(run_id))).toEqual(await plain.answer('Mira'));
});

test('an answer that was queued behind new input ends in an error and is not applied', async () => {
  const first = await at.client.run({ graph: 'inARow', input: { log: [] } });
  // Both are recorded before the worker can take either: the first in hand decides.
  const newInput = at.client.startRun({
    graph: 'inARow',
    thread_id: first.thread_id,
    input: { log: ['new'] },
  });
  const answer = newInput.then(() =>
    at.client.answer(first.thread_id, 'late', { interruptId: first.interrupts?.[0]?.id ?? '' }),
  );
  const [given] = await Promise.allSettled([answer]);
  const end =
    given.status === 'rejected'
      ? { error: given.reason as unknown }
      : await at.client.waitForRun(given.value.run_id);
  expect(end).toMatchObject({ error: { code: expect.stringMatching(/^INTERRUPT_(UNKNOWN|SUPERSEDED)$/) } });
  const pending = await at.client.interrupts({ thread_id: first.thread_id, status: 'pending' });
  expect(pending.map(({ value }) => value)).toEqual([{ field: 'name' }]);
});
