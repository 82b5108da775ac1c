import { Annotation, DeltaChannel, interrupt, Send, START, StateGraph } from '@langchain/langgraph';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { JsonValue } from '../../src/contracts/json.ts';
import type { RunResult } from '../../src/contracts/runs.ts';
import { operation, sleep } from '../../src/index.ts';
import { openInstallation, type Installation } from '../support/installation.ts';

const State = Annotation.Root({
  v: Annotation<string>(),
  amount: Annotation<number>(),
  log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
});
const LONG = 'a long line of the conversation. '.repeat(400);

const paid: string[] = [];
const pay = async ({ amount, v }: { amount: number; v: string }) => ({
  log: [
    await operation('refund', { kind: 'idempotent', args: { amount } }, () => {
      paid.push(`${v} ${amount}`);
      return `refunded ${amount}`;
    }),
  ],
});
const asks = (what: string) => (state: { amount: number }) => ({
  log: [`said ${String(interrupt({ [what]: state.amount }))}`],
});
const inner = new StateGraph(State)
  .addNode('in1', () => ({ log: ['in1'] }))
  .addNode('ask', asks('inner'))
  .addEdge(START, 'in1')
  .addEdge('in1', 'ask')
  .compile();
/** A channel that no checkpoint holds whole. */
const Delta = Annotation.Root({
  log: new DeltaChannel<string[], string[]>((all, updates) => [...all, ...updates.flat()], {
    snapshotFrequency: 4,
  }) as never,
}) as unknown as typeof State;
let failing = true;
const graphs = {
  refund: new StateGraph(State)
    .addNode('propose', () => ({ log: [LONG] }))
    .addNode('approve', asks('refund'))
    .addNode('pay', pay)
    .addEdge(START, 'propose')
    .addEdge('propose', 'approve')
    .addEdge('approve', 'pay')
    .compile(),
  nested: new StateGraph(State)
    .addNode('sub', async ({ amount }) => ({ log: (await inner.invoke({ amount })).log }))
    .addEdge(START, 'sub')
    .compile(),
  several: new StateGraph(State)
    .addNode('one', asks('each'))
    .addConditionalEdges(START, () => [1, 2].map((amount) => new Send('one', { amount })), ['one'])
    .compile(),
  delta: ['a', 'b', 'c']
    .reduce(
      (graph, name) => graph.addNode(name, () => ({ log: [name] })) as never,
      new StateGraph(Delta) as StateGraph<typeof State.spec, typeof State.State, typeof State.Update, string>,
    )
    .addEdge(START, 'a')
    .addEdge('a', 'b')
    .addEdge('b', 'c')
    .compile(),
  fails: new StateGraph(State)
    .addNode('fail', () => {
      if (failing) throw new Error('not yet');
      return { log: ['done'] };
    })
    .addEdge(START, 'fail')
    .compile(),
  sleeps: new StateGraph(State)
    .addNode('rest', async () => {
      await sleep(1_000);
      return { log: ['rested'] };
    })
    .addEdge(START, 'rest')
    .compile(),
};

let at: Installation;
beforeAll(async () => {
  at = await openInstallation('copy');
  await at.startWorker(graphs);
});
afterAll(() => at.close());

const before = async (thread: string, node: string): Promise<string> =>
  (await at.client.history(thread)).find((entry) => entry.pending_tasks.includes(node))?.checkpoint_id ??
  'none';
async function answer(thread: string, value: JsonValue, interruptId?: string): Promise<RunResult> {
  const { run_id } = await at.client.answer(thread, value, { interruptId, actor: 'user:mira' });
  return at.client.waitForRun(run_id);
}
const said = (log: unknown) => (Array.isArray(log) ? log.filter((line) => line !== LONG) : log);
const logOf = (run: RunResult) => said((run.values as { log: unknown } | undefined)?.log);
const payments = (v: string) => paid.filter((one) => one.startsWith(`${v} `));

/** All rows about a thread. */
async function rowsOf(thread: string): Promise<unknown[]> {
  const tables = ['threads', 'runs', 'interrupts', 'operations', 'checkpoints', 'checkpoint_blobs'];
  const read = [...tables, 'checkpoint_writes', 'checkpoint_elements'].map(async (table) => {
    const { rows } = await at.database.query<{ row: string }>(
      `SELECT to_jsonb(t)::text AS row FROM ${at.database.table(table)} t WHERE thread_id = $1`,
      [thread],
    );
    return rows.map(({ row }) => row).sort();
  });
  return Promise.all(read);
}

test('a copy waits for the same answer, each goes its own way, and what is paid is paid once', async () => {
  const asked = await at.client.run({ graph: 'refund', input: { v: 'both', amount: 20 } });
  const rows = await rowsOf(asked.thread_id);
  const copy = await at.client.copyThread(asked.thread_id, { as: 'both-2', actor: 'user:ana' });
  expect(copy).toMatchObject({ thread_id: 'both-2', copied_from: asked.thread_id });
  expect(await rowsOf(asked.thread_id)).toEqual(rows);
  expect(await at.client.thread('both-2')).toMatchObject({
    status: 'interrupted',
    graph: 'refund',
    pending_interrupts: 1,
    lineage_root: asked.thread_id,
    copied_from: asked.thread_id,
    copied_at: await before(asked.thread_id, 'approve'),
    effects: 'recorded',
    forked_at: null,
  });
  expect(await at.client.readRun(copy.run_id)).toMatchObject({
    status: 'interrupted',
    next: ['approve'],
    interrupts: [{ node: 'approve', value: { refund: 20 } }],
  });
  expect((await at.client.history('both-2')).map((one) => one.checkpoint_id)).toEqual(
    (await at.client.history(asked.thread_id)).map((one) => one.checkpoint_id),
  );
  // The copy is first: it may not pay before somebody says so.
  const held = await answer('both-2', 'yes');
  expect(held).toMatchObject({ status: 'interrupted', interrupts: [{ kind: 'operation' }] });
  expect(payments('both')).toEqual([]);
  expect(await at.client.interrupts({ thread_id: asked.thread_id })).toMatchObject([{ status: 'pending' }]);
  expect(logOf(await answer(asked.thread_id, 'sure'))).toEqual(['said sure', 'refunded 20']);
  expect(payments('both')).toEqual(['both 20']);
  expect(logOf(await answer('both-2', { retry: true }))).toEqual(['said yes', 'refunded 20']);
  expect(payments('both')).toEqual(['both 20']);
  // Both have their long line, each in its own rows.
  for (const thread of [asked.thread_id, 'both-2'])
    expect(await at.client.runs(thread)).toMatchObject(
      thread === 'both-2' ? [{}, {}, { kind: 'copy', status: 'interrupted' }] : [{}, { kind: 'input' }],
    );
});

test('a copy of a question about an effect needs one answer, and holds for the copy alone', async () => {
  const { thread_id } = await at.client.run({ graph: 'refund', input: { v: 'effect', amount: 3 } });
  const copy = await at.client.copyThread(thread_id);
  await answer(copy.thread_id, 'yes');
  const second = await at.client.copyThread(copy.thread_id);
  expect(await at.client.thread(second.thread_id)).toMatchObject({
    lineage_root: thread_id,
    copied_from: copy.thread_id,
  });
  expect(logOf(await answer(second.thread_id, { retry: true }))).toEqual(['said yes', 'refunded 3']);
  expect(payments('effect')).toEqual(['effect 3']);
  expect(await at.client.interrupts({ thread_id: copy.thread_id, status: 'pending' })).toHaveLength(1);
});

test('at an older checkpoint a copy stands before what came after it, and asks for it again', async () => {
  const { thread_id } = await at.client.run({ graph: 'refund', input: { v: 'older', amount: 20 } });
  await answer(thread_id, 'yes');
  await at.client.run({ graph: 'refund', thread_id, input: { amount: 30 } });
  const checkpointId = (await at.client.history(thread_id)).at(-3)?.checkpoint_id ?? '';
  const { thread_id: copy } = await at.client.copyThread(thread_id, { checkpointId, effects: 'dry' });
  expect(await at.client.history(copy)).toHaveLength(3);
  expect(await at.client.thread(copy)).toMatchObject({
    status: 'interrupted',
    pending_interrupts: 0,
    effects: 'dry',
  });
  const going = await at.client.waitForRun((await at.client.continueThread(copy)).run_id);
  expect(going).toMatchObject({ status: 'interrupted', interrupts: [{ value: { refund: 20 } }] });
  expect(logOf(await answer(copy, 'again'))).toEqual(['said again', 'refunded 20']);
  expect(payments('older')).toEqual(['older 20']);
  expect(await at.client.interrupts({ thread_id: copy })).toHaveLength(1);
  // A copy can be forked like any thread.
  const run = await at.client.fork(copy, { checkpointId: await before(copy, 'pay'), values: { amount: 9 } });
  expect(await at.client.waitForRun(run.run_id)).toMatchObject({ interrupts: [{ kind: 'operation' }] });
  expect(await at.client.thread(copy)).toMatchObject({
    forked_at: (await before(thread_id, 'pay')) ? expect.any(String) : '',
  });
});

test.each(['nested', 'several'] as const)(
  '%s: questions of inner and parallel tasks wait in both',
  async (graph) => {
    const asked = await at.client.run({ graph, input: { amount: 7 } });
    const questions = asked.interrupts ?? [];
    if (questions.length > 1) await answer(asked.thread_id, 'first', questions[0]?.id);
    const { thread_id: copy } = await at.client.copyThread(asked.thread_id);
    const last = questions.at(-1)?.id;
    const copied = await answer(copy, 'copy', last);
    const original = await answer(asked.thread_id, 'original', last);
    const expected = graph === 'nested' ? ['in1', 'said '] : ['said first', 'said '];
    expect(logOf(copied)).toEqual([expected[0], `${expected[1]}copy`]);
    expect(logOf(original)).toEqual([expected[0], `${expected[1]}original`]);
  },
);

test('a copy of a failed thread can be retried, of one that ended goes on with new input', async () => {
  const failed = await at.client.run({ graph: 'fails', input: { v: 'x' } });
  const { thread_id: copy } = await at.client.copyThread(failed.thread_id);
  expect(await at.client.thread(copy)).toMatchObject({ status: 'error' });
  failing = false;
  expect((await at.client.waitForRun((await at.client.retry(copy)).run_id)).values).toMatchObject({
    log: ['done'],
  });
  expect(await at.client.thread(failed.thread_id)).toMatchObject({ status: 'error' });
  const { thread_id: another, run_id } = await at.client.copyThread(copy);
  expect(await at.client.readRun(run_id)).toMatchObject({ status: 'success', values: { log: ['done'] } });
  const more = await at.client.run({ graph: 'fails', thread_id: another, input: { v: 'y' } });
  expect(more.values).toMatchObject({ v: 'y', log: ['done', 'done'] });
});

test('a copy holds what a DeltaChannel has gathered, at its end and in between', async () => {
  const { thread_id } = await at.client.run({ graph: 'delta', input: { log: ['in'] } });
  const more = await at.client.run({ graph: 'delta', thread_id, input: { log: ['more'] } });
  expect(logOf(more)).toEqual(['in', 'a', 'b', 'c', 'more', 'a', 'b', 'c']);
  const whole = await at.client.copyThread(thread_id);
  const next = { graph: 'delta', thread_id: whole.thread_id, input: { log: ['copy'] } };
  expect(logOf(await at.client.run(next))).toEqual([...(logOf(more) as string[]), 'copy', 'a', 'b', 'c']);
  const part = await at.client.copyThread(thread_id, { checkpointId: await before(thread_id, 'c') });
  const { run_id } = await at.client.continueThread(part.thread_id);
  expect(logOf(await at.client.waitForRun(run_id))).toEqual(logOf(more));
});

test('a copy sleeps as long as the original', async () => {
  const { thread_id } = await at.client.run({ graph: 'sleeps', input: {} });
  const { thread_id: copy } = await at.client.copyThread(thread_id);
  const { sleeps_until } = await at.client.thread(thread_id);
  expect(await at.client.thread(copy)).toMatchObject({ status: 'sleeping', sleeps_until });
  await expect
    .poll(() => at.client.thread(copy).then(({ status }) => status), { timeout: 20_000 })
    .toBe('idle');
});

test('what can not be copied is refused, and leaves nothing behind', async () => {
  const { thread_id } = await at.client.run({ graph: 'several', input: { amount: 1 } });
  const threads = await at.client.threads({ limit: 1_000 });
  for (const [options, code] of [
    [{ as: thread_id }, 'THREAD_EXISTS'],
    [{ checkpointId: 'nowhere' }, 'CHECKPOINT_UNKNOWN'],
    [{ as: '' }, 'INPUT_INVALID'],
  ] as const)
    await expect(at.client.copyThread(thread_id, options)).rejects.toMatchObject({ code });
  await expect(at.client.copyThread('nobody')).rejects.toMatchObject({ code: 'THREAD_UNKNOWN' });
  await at.register({ unserved: graphs.several });
  const { thread_id: busy } = await at.client.startRun({ graph: 'unserved', input: {} });
  await expect(at.client.copyThread(busy)).rejects.toMatchObject({ code: 'THREAD_BUSY' });
  expect((await at.client.threads({ limit: 1_000 })).length).toBe(threads.length + 1);
});
