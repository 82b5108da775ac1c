import { Annotation, interrupt, START, StateGraph } from '@langchain/langgraph';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { operation } from '../../src/operations/operation.ts';
import { requestRun } from '../../src/threads/request-run.ts';
import { beginSegment, finishSegment } from '../../src/threads/segment.ts';
import { until } from '../support/eventually.ts';
import { openInstallation, type Installation } from '../support/installation.ts';

const State = Annotation.Root({
  text: Annotation<string>(),
  log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
});

/** Texts whose node `slow` has begun, and what `send` sent outside. */
const begun: string[] = [];
const sent: string[] = [];
/** How many nodes are at work now, and were at most. */
let active = 0;
let mostActive = 0;

const send = (text: string): Promise<string> =>
  operation('send', { kind: 'exclusive', args: { text } }, () => {
    sent.push(text);
    return `sent ${text}`;
  });

/** `first` sends, `slow` waits for its signal when the text says so, `last` says that it is done. */
const texting = new StateGraph(State)
  .addNode('first', async ({ text }) => ({ log: [`first ${text}`, await send(text)] }))
  .addNode('slow', async ({ text }, { signal }) => {
    active += 1;
    mostActive = Math.max(mostActive, active);
    begun.push(text);
    try {
      if (text.includes('slow'))
        await new Promise((_, reject) => {
          signal?.addEventListener('abort', () => reject(new Error('told to stop')));
        });
      return { log: [`slow ${text}`] };
    } finally {
      active -= 1;
    }
  })
  .addNode('last', ({ text }) => ({ log: [`last ${text}`] }))
  .addEdge(START, 'first')
  .addEdge('first', 'slow')
  .addEdge('slow', 'last')
  .compile();

const asking = new StateGraph(State)
  .addNode('ask', ({ text }) => (text === 'ask' ? { log: [String(interrupt('go on?'))] } : { log: [text] }))
  .addEdge(START, 'ask')
  .compile();

let at: Installation;
beforeAll(async () => {
  at = await openInstallation();
  await at.startWorker({ texting, asking });
});
afterAll(() => at.close());

type Strategy = 'enqueue' | 'reject' | 'interrupt' | 'rollback';
const text = (thread_id: string, words: string, multitask_strategy?: Strategy, graph = 'texting') =>
  at.client.startRun({
    graph,
    thread_id,
    input: { text: words },
    ...(multitask_strategy ? { multitask_strategy } : {}),
  });
const all = (words: string) => [`first ${words}`, `sent ${words}`, `slow ${words}`, `last ${words}`];
const id = () => crypto.randomUUID();

test('`interrupt` keeps what the stopped run did, and goes on from there', async () => {
  const thread = id();
  const slow = await text(thread, `slow ${thread}`);
  await until(() => begun.includes(`slow ${thread}`));
  const queued = await text(thread, 'queued');
  const next = await text(thread, 'next', 'interrupt');
  expect(next.stopped).toMatchObject({
    stopping_run: slow.run_id,
    dropped_runs: [queued.run_id],
    effects: [{ tool: 'send', status: 'succeeded', args: { text: `slow ${thread}` } }],
  });
  expect(await at.client.waitForRun(slow.run_id)).toMatchObject({
    status: 'interrupted',
    stopped_by: next.run_id,
  });
  expect(await at.client.waitForRun(queued.run_id)).toMatchObject({ status: 'interrupted' });
  expect(await at.client.waitForRun(next.run_id)).toMatchObject({
    status: 'success',
    values: { log: [`first slow ${thread}`, `sent slow ${thread}`, ...all('next')] },
  });
  expect(await at.client.thread(thread)).toMatchObject({ status: 'idle', unfinished_runs: 0 });
});

test('`rollback` goes on from before the stopped run; its checkpoints stay, and its effects are listed', async () => {
  const thread = id();
  const done = await text(thread, 'done');
  await at.client.waitForRun(done.run_id);
  const slow = await text(thread, `slow ${thread}`);
  await until(() => begun.includes(`slow ${thread}`));
  const queued = await text(thread, 'queued');
  const next = await text(thread, 'next', 'rollback');
  const effects = [{ tool: 'send', status: 'succeeded', args: { text: `slow ${thread}` } }];
  expect(next.stopped).toMatchObject({ stopping_run: slow.run_id, dropped_runs: [queued.run_id], effects });
  expect(await at.client.waitForRun(slow.run_id)).toMatchObject({
    status: 'rolled_back',
    stopped_by: next.run_id,
    effects,
  });
  expect(await at.client.waitForRun(queued.run_id)).toMatchObject({ status: 'rolled_back', effects: [] });
  expect(await at.client.waitForRun(next.run_id)).toMatchObject({
    status: 'success',
    values: { log: [...all('done'), ...all('next')] },
  });
  const later = await text(thread, 'later');
  expect(await at.client.waitForRun(later.run_id)).toMatchObject({
    values: { log: [...all('done'), ...all('next'), ...all('later')] },
  });
  const history = await at.client.history(thread);
  expect(history.filter((entry) => entry.run_id === slow.run_id)).not.toEqual([]);
  expect(sent.filter((words) => words === `slow ${thread}`)).toHaveLength(1);
});

test('`rollback` of the first run of a thread begins with an empty state', async () => {
  const thread = id();
  const slow = await text(thread, `slow ${thread}`);
  await until(() => begun.includes(`slow ${thread}`));
  const next = await text(thread, 'next', 'rollback');
  expect(await at.client.waitForRun(next.run_id)).toMatchObject({
    status: 'success',
    values: { log: all('next') },
  });
  expect(await at.client.readRun(slow.run_id)).toMatchObject({ status: 'rolled_back' });
});

test('one rollback after another, and an interrupt in between, all go back to before the first', async () => {
  const thread = id();
  await at.client.waitForRun((await text(thread, 'done')).run_id);
  await text(thread, `slow ${thread}`);
  await until(() => begun.includes(`slow ${thread}`));
  await text(thread, 'one', 'rollback');
  await text(thread, 'two', 'interrupt');
  const slow = await text(thread, `slow ${thread} three`, 'rollback');
  await until(() => begun.includes(`slow ${thread} three`));
  const last = await text(thread, 'last', 'rollback');
  expect(await at.client.waitForRun(last.run_id)).toMatchObject({
    values: { log: [...all('done'), ...all('last')] },
  });
  expect(await at.client.readRun(slow.run_id)).toMatchObject({ status: 'rolled_back' });
});

test('the same input after a rollback does not repeat an effect that is on record', async () => {
  const thread = id();
  await text(thread, `slow ${thread}`);
  await until(() => begun.includes(`slow ${thread}`));
  const again = await text(thread, `slow ${thread}`, 'rollback');
  await until(() => begun.filter((words) => words === `slow ${thread}`).length === 2);
  await at.client.cancel(thread);
  await at.client.waitForRun(again.run_id);
  expect(sent.filter((words) => words === `slow ${thread}`)).toHaveLength(1);
});

test('a run that ends before it hears that it is to be rolled back is rolled back', async () => {
  const thread = id();
  await at.register({ unserved: texting });
  await text(thread, 'one', undefined, 'unserved');
  const run = await beginSegment(at.database, 'default', thread);
  if (!run) throw new Error('nothing waits');
  const next = await requestRun(at.database, 'default', {
    graph: 'unserved',
    thread_id: thread,
    input: { text: 'two' },
    multitask_strategy: 'rollback',
  });
  expect(next).toMatchObject({ wakes: false, stopped: { stopping_run: run.run_id } });
  const end = { run_id: run.run_id, fence: run.fence, status: 'success', checkpoint_id: 'c1' } as const;
  expect(await finishSegment(at.database, 'default', thread, { ...end, supersede: 'others' })).toMatchObject({
    more: true,
  });
  expect(await at.client.readRun(run.run_id)).toMatchObject({ status: 'rolled_back' });
  expect(await beginSegment(at.database, 'default', thread)).toMatchObject({
    run_id: next.run_id,
    rewound: true,
    fork_checkpoint_id: null,
  });
});

test.each<Strategy>(['enqueue', 'reject', 'interrupt', 'rollback'])(
  'a thread that waits for a person is not busy: `%s` runs at once, and the question is overtaken',
  async (strategy) => {
    const thread = id();
    const asked = await at.client.run({ graph: 'asking', thread_id: thread, input: { text: 'ask' } });
    const interruptId = asked.interrupts?.[0]?.id ?? '';
    const next = await text(thread, 'next', strategy, 'asking');
    expect(next.stopped).toBeUndefined();
    expect(await at.client.waitForRun(next.run_id)).toMatchObject({ values: { log: ['next'] } });
    expect(await at.client.readRun(asked.run_id)).toMatchObject({ status: 'interrupted' });
    await expect(at.client.answer(thread, 'yes', { interruptId })).rejects.toMatchObject({
      code: 'INTERRUPT_UNKNOWN',
    });
  },
);

test('`enqueue` keeps the order and both inputs; `reject` changes nothing', async () => {
  const thread = id();
  const slow = await text(thread, `slow ${thread}`);
  await until(() => begun.includes(`slow ${thread}`));
  const queued = await text(thread, 'queued', 'enqueue');
  await expect(text(thread, 'no', 'reject')).rejects.toMatchObject({
    code: 'THREAD_BUSY',
    details: { run_id: slow.run_id },
  });
  expect((await at.client.runs(thread)).map((run) => run.run_id)).toEqual([queued.run_id, slow.run_id]);
  await at.client.cancel(thread);
  await Promise.all([slow, queued].map((run) => at.client.waitForRun(run.run_id)));
});

test.each<[string, Strategy[]]>([
  ['interrupt', ['interrupt']],
  ['rollback', ['rollback']],
  ['all of them in turn', ['enqueue', 'rollback', 'interrupt']],
])('of twelve inputs at once with %s never two are active, and every run ends', async (_, strategies) => {
  const thread = id();
  const strategyOf = (i: number) => strategies[i % strategies.length] ?? 'interrupt';
  mostActive = 0;
  const runs = await Promise.all(
    Array.from({ length: 12 }, (_one, i) =>
      text(thread, `${i} ${i % 3 === 0 ? 'slow' : ''} ${thread}`, strategyOf(i)),
    ),
  );
  const last = await text(thread, 'last', 'rollback');
  const ends = await Promise.all(runs.map((run) => at.client.waitForRun(run.run_id)));
  for (const end of ends) expect(['interrupted', 'rolled_back', 'success']).toContain(end.status);
  const { status, values } = await at.client.waitForRun(last.run_id);
  expect(status).toBe('success');
  expect((values as { log: string[] }).log.slice(-4)).toEqual(all('last'));
  expect(mostActive).toBe(1);
  expect(await at.client.thread(thread)).toMatchObject({ unfinished_runs: 0, status: 'idle' });
});
