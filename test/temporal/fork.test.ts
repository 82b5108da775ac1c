import { Annotation, END, interrupt, START, StateGraph } from '@langchain/langgraph';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ForkOptions } from '../../src/client/branch-options.ts';
import type { RunResult } from '../../src/contracts/runs.ts';
import { operation } from '../../src/index.ts';
import { openInstallation, type Installation } from '../support/installation.ts';

const State = Annotation.Root({
  v: Annotation<string>(),
  amount: Annotation<number>(),
  log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
});

const twoNodes = () =>
  new StateGraph(State)
    .addNode('a', () => ({ log: ['a1'] }))
    .addNode('b', (state) => ({ log: [`b${state.v}`] }))
    .addEdge(START, 'a')
    .addEdge('a', 'b')
    .addEdge('b', END);

/** The far side: what it was asked to pay, by thread. */
const paid: string[] = [];
const pay = (key?: string) => async (state: { amount: number; v: string }) => ({
  log: [
    await operation(
      'refund',
      {
        kind: 'idempotent',
        args: { amount: state.amount },
        ...(key === undefined ? {} : { key: `${key}:${state.v}` }),
        simulate: ({ amount }: { amount: number }) => `would refund ${amount}`,
      },
      () => {
        paid.push(`${state.v} ${state.amount}`);
        return `refunded ${state.amount}`;
      },
    ),
  ],
});
const approvedThen = (node: ReturnType<typeof pay>) =>
  new StateGraph(State)
    .addNode('propose', () => ({ log: ['proposed'] }))
    .addNode('approve', (state) => ({ log: [`said ${String(interrupt({ refund: state.amount }))}`] }))
    .addNode('pay', node)
    .addEdge(START, 'propose')
    .addEdge('propose', 'approve')
    .addEdge('approve', 'pay')
    .addEdge('pay', END)
    .compile();

const inner = new StateGraph(State)
  .addNode('inside', async (state) => ({
    log: [await operation('mail', { kind: 'exclusive', args: { to: state.v } }, () => mail(state.v))],
  }))
  .addEdge(START, 'inside')
  .compile();
const mail = (to: string) => {
  paid.push(`mail ${to}`);
  return `mailed ${to}`;
};

const graphs = {
  plain: twoNodes().compile(),
  stops: twoNodes().compile({ interruptBefore: ['b'] }),
  refund: approvedThen(pay()),
  keyed: approvedThen(pay('refund')),
  nested: new StateGraph(State)
    .addNode('first', () => ({ log: ['first'] }))
    .addNode('sub', async (state) => ({ log: (await inner.invoke({ v: state.v })).log }))
    .addEdge(START, 'first')
    .addEdge('first', 'sub')
    .addEdge('sub', END)
    .compile(),
  unready: new StateGraph(State)
    .addNode('call', async ({ v, amount }) => ({
      log: [await operation('call', { kind: 'exclusive', args: { amount } }, () => mail(v))],
    }))
    .addEdge(START, 'call')
    .addEdge('call', END)
    .compile(),
};

let at: Installation;
beforeAll(async () => {
  at = await openInstallation('fork');
  await at.startWorker(graphs, { segmentBudgetMs: 60_000 });
});
afterAll(() => at.close());

const before = async (thread: string, node: string): Promise<string> => {
  const found = (await at.client.history(thread)).find((entry) => entry.pending_tasks.includes(node));
  if (!found) throw new Error(`no checkpoint before ${node}`);
  return found.checkpoint_id;
};
async function fork(thread: string, options: ForkOptions): Promise<RunResult> {
  const { run_id } = await at.client.fork(thread, options);
  return at.client.waitForRun(run_id);
}
async function answer(run: RunResult, value: Parameters<typeof at.client.answer>[1]): Promise<RunResult> {
  const { run_id } = await at.client.answer(run.thread_id, value, { actor: 'user:mira' });
  return at.client.waitForRun(run_id);
}

describe('a fork', () => {
  test('E1: with changed values runs what comes next with them, and the first branch stays', async () => {
    const first = await at.client.run({ graph: 'plain', input: { v: '1' } });
    expect(first.values).toMatchObject({ log: ['a1', 'b1'] });
    const old = await at.client.history(first.thread_id);
    const point = await before(first.thread_id, 'b');
    const forked = await fork(first.thread_id, { checkpointId: point, values: { v: 'ed' } });
    expect(forked).toMatchObject({ status: 'success', values: { v: 'ed', log: ['a1', 'bed'] } });
    const history = await at.client.history(first.thread_id);
    expect(history.slice(-old.length)).toEqual(old);
    expect(history.slice(0, 2)).toMatchObject([
      { source: 'loop', pending_tasks: [], parent_checkpoint_id: history[1]?.checkpoint_id },
      { source: 'update', pending_tasks: ['b'], parent_checkpoint_id: point, run_id: forked.run_id },
    ]);
    // The run of the first branch shows what it always did.
    expect((await at.client.readRun(first.run_id)).values).toMatchObject({ v: '1', log: ['a1', 'b1'] });
    expect(await at.client.runs(first.thread_id)).toMatchObject([{ kind: 'fork' }, { kind: 'input' }]);
  });

  test('without values replays: LangGraph stores a fork and runs the nodes again', async () => {
    const { thread_id } = await at.client.run({ graph: 'plain', input: { v: '1' } });
    const point = await before(thread_id, 'b');
    expect((await fork(thread_id, { checkpointId: point })).values).toMatchObject({ log: ['a1', 'b1'] });
    expect((await at.client.history(thread_id)).slice(0, 2)).toMatchObject([
      { source: 'loop' },
      { source: 'fork', parent_checkpoint_id: point },
    ]);
  });

  test('takes the change as that of a node that was next, and goes on behind it', async () => {
    const { thread_id } = await at.client.run({ graph: 'plain', input: { v: '1' } });
    const checkpointId = await before(thread_id, 'a');
    const forked = await fork(thread_id, { checkpointId, values: { log: ['by hand'] }, asNode: 'a' });
    expect(forked.values).toMatchObject({ log: ['by hand', 'b1'] });
  });

  test('of a fork, and new input after it, go on from the newest branch', async () => {
    const { thread_id } = await at.client.run({ graph: 'plain', input: { v: '1' } });
    await fork(thread_id, { checkpointId: await before(thread_id, 'b'), values: { v: '2' } });
    const again = await fork(thread_id, { checkpointId: await before(thread_id, 'b'), values: { v: '3' } });
    expect(again.values).toMatchObject({ log: ['a1', 'b3'] });
    const next = await at.client.run({ graph: 'plain', thread_id, input: { v: '4' } });
    expect(next.values).toMatchObject({ log: ['a1', 'b3', 'a1', 'b4'] });
  });

  test('passes the static interrupt that it begins at, and is queued behind what is under way', async () => {
    const first = await at.client.run({ graph: 'stops', input: { v: '1' } });
    expect(first.next).toEqual(['b']);
    const checkpointId = await before(first.thread_id, 'b');
    const waiting = await at.client.startRun({
      graph: 'stops',
      thread_id: first.thread_id,
      input: { v: '9' },
    });
    const forked = await fork(first.thread_id, { checkpointId, values: { v: '2' } });
    expect(forked).toMatchObject({ status: 'success', values: { log: ['a1', 'b2'] } });
    expect((await at.client.readRun(waiting.run_id)).status).toBe('interrupted');
  });

  test('that names a checkpoint or a node that is not there is refused, or fails, and changes nothing', async () => {
    const { thread_id } = await at.client.run({ graph: 'plain', input: { v: '1' } });
    const other = await at.client.run({ graph: 'plain', input: { v: '1' } });
    const elsewhere = await before(other.thread_id, 'b');
    for (const checkpointId of ['nowhere', elsewhere])
      await expect(at.client.fork(thread_id, { checkpointId })).rejects.toMatchObject({
        code: 'CHECKPOINT_UNKNOWN',
        message: expect.stringContaining(`perdure history ${thread_id}`),
      });
    await expect(at.client.fork('nobody', { checkpointId: 'x' })).rejects.toMatchObject({
      code: 'THREAD_UNKNOWN',
    });
    const checkpointId = await before(thread_id, 'b');
    await expect(at.client.fork(thread_id, { checkpointId, asNode: 'a' })).rejects.toMatchObject({
      code: 'INPUT_INVALID',
    });
    const history = await at.client.history(thread_id);
    const failed = await fork(thread_id, { checkpointId, values: { v: '2' }, asNode: 'nobody' });
    expect(failed).toMatchObject({ status: 'error', error: { message: expect.stringContaining('nobody') } });
    expect(await at.client.history(thread_id)).toEqual(history);
  });
});

test('diff shows, channel by channel, what differs between two checkpoints', async () => {
  const first = await at.client.run({ graph: 'plain', input: { v: '1' } });
  const [end] = await at.client.history(first.thread_id);
  const checkpointId = await before(first.thread_id, 'b');
  await fork(first.thread_id, { checkpointId, values: { v: 'ed', amount: 3 } });
  const [a, b] = [
    end?.checkpoint_id ?? '',
    (await at.client.history(first.thread_id))[0]?.checkpoint_id ?? '',
  ];
  const diff = await at.client.diff(first.thread_id, a, b);
  expect({ ...diff, changes: new Set(diff.changes) }).toEqual({
    a,
    b,
    changes: new Set([
      { path: ['v'], before: '1', after: 'ed' },
      { path: ['log', 1], before: 'b1', after: 'bed' },
      { path: ['amount'], after: 3 },
    ]),
  });
  expect((await at.client.diff(first.thread_id, a, a)).changes).toEqual([]);
  expect((await at.client.diff(first.thread_id, a, checkpointId)).changes).toEqual([
    { path: ['log', 1], before: 'b1' },
  ]);
  await expect(at.client.diff(first.thread_id, a, 'nowhere')).rejects.toMatchObject({
    code: 'CHECKPOINT_UNKNOWN',
  });
});

describe('an approval', () => {
  test('E9: is asked for again by a replay, without an effect; the old branch keeps its yes', async () => {
    const asked = await at.client.run({ graph: 'refund', input: { v: 'e9', amount: 20 } });
    const done = await answer(asked, 'yes');
    expect(done).toMatchObject({
      status: 'success',
      values: { log: ['proposed', 'said yes', 'refunded 20'] },
    });
    const again = await fork(asked.thread_id, { checkpointId: await before(asked.thread_id, 'approve') });
    expect(again).toMatchObject({ status: 'interrupted', interrupts: [{ value: { refund: 20 } }] });
    expect(again.interrupts?.[0]?.id).not.toBe(asked.interrupts?.[0]?.id);
    expect(paid.filter((one) => one.startsWith('e9'))).toEqual(['e9 20']);
    expect((await at.client.readRun(done.run_id)).values).toMatchObject({
      log: ['proposed', 'said yes', 'refunded 20'],
    });
    const interrupts = await at.client.interrupts({ thread_id: asked.thread_id });
    expect(interrupts.map(({ status, answer: said }) => [status, said])).toEqual([
      ['answered', 'yes'],
      ['pending', null],
    ]);
    // What was paid is on record: the branch gets that result.
    expect((await answer(again, 'sure')).values).toMatchObject({
      log: ['proposed', 'said sure', 'refunded 20'],
    });
    expect(paid.filter((one) => one.startsWith('e9'))).toEqual(['e9 20']);
  });

  test('E10: does not carry over to changed arguments: asked again, nothing executed', async () => {
    const asked = await at.client.run({ graph: 'refund', input: { v: 'e10', amount: 20 } });
    await answer(asked, 'yes');
    const changed = await fork(asked.thread_id, {
      checkpointId: await before(asked.thread_id, 'approve'),
      values: { amount: 200 },
    });
    expect(changed).toMatchObject({ status: 'interrupted', interrupts: [{ value: { refund: 200 } }] });
    expect(paid.filter((one) => one.startsWith('e10 '))).toEqual(['e10 20']);
    // Even approved, the refund of another amount is a new effect, which the record does not know.
    const held = await answer(changed, 'yes');
    expect(held).toMatchObject({
      status: 'interrupted',
      interrupts: [{ kind: 'operation', value: { type: 'operation_new', args: { amount: 200 } } }],
    });
    expect(paid.filter((one) => one.startsWith('e10 '))).toEqual(['e10 20']);
    const last = await answer(held, { retry: true });
    expect(last).toMatchObject({
      status: 'success',
      values: { log: ['proposed', 'said yes', 'refunded 200'] },
    });
    expect(paid.filter((one) => one.startsWith('e10 '))).toEqual(['e10 20', 'e10 200']);
    const operations = await at.client.operations({ threadId: asked.thread_id });
    expect(operations.map((each) => [each.operation_id, each.status])).toEqual([
      [`op:${asked.thread_id}:pay@3:refund:0`, 'succeeded'],
      [expect.stringMatching(`^op:${asked.thread_id}:pay@3:refund:0~[0-9a-f]{12}$`), 'succeeded'],
    ]);
  });

  test('that is still waited for is superseded by the fork, also where that forks at the head', async () => {
    const asked = await at.client.run({ graph: 'refund', input: { v: 'head', amount: 5 } });
    const again = await fork(asked.thread_id, { checkpointId: await before(asked.thread_id, 'approve') });
    const [old, young] = await at.client.interrupts({ thread_id: asked.thread_id });
    expect([old?.status, young?.status]).toEqual(['superseded', 'pending']);
    expect(young?.id).toBe(again.interrupts?.[0]?.id);
    await expect(
      at.client.answer(asked.thread_id, 'yes', { interruptId: asked.interrupts?.[0]?.id ?? '' }),
    ).rejects.toMatchObject({ code: 'INTERRUPT_UNKNOWN' });
    expect(paid.filter((one) => one.startsWith('head'))).toEqual([]);
  });
});

describe('effects', () => {
  async function approved(graph: 'refund' | 'keyed', v: string) {
    const asked = await at.client.run({ graph, input: { v, amount: 20 } });
    await answer(asked, 'yes');
    return asked.thread_id;
  }
  const payments = (v: string) => paid.filter((one) => one.startsWith(`${v} `));

  test('recorded: a person may say what to take for the result instead', async () => {
    const thread = await approved('refund', 'instead');
    const held = await fork(thread, { checkpointId: await before(thread, 'pay'), values: { amount: 7 } });
    const { operation: shown } = await at.client.resolveOperation(
      (held.interrupts?.[0]?.value as { operation_id: string } | undefined)?.operation_id ?? '',
      { happened: 'paid by hand' },
      'user:noor',
    );
    expect(shown).toMatchObject({ status: 'pending', args: { amount: 7 } });
    const [newest] = await at.client.runs(thread, 1);
    const done = await at.client.waitForRun(newest?.run_id ?? '');
    expect(done.values).toMatchObject({ log: ['proposed', 'said yes', 'paid by hand'] });
    expect(payments('instead')).toEqual(['instead 20']);
    expect(await at.client.operation(shown.operation_id)).toMatchObject({
      status: 'succeeded',
      resolved_by: 'user:noor',
    });
  });

  test('recorded: stays in force for later runs, an answer holds for one branch, and a live fork ends it', async () => {
    const thread = await approved('refund', 'force');
    const at7 = { checkpointId: await before(thread, 'pay'), values: { amount: 7 } };
    const first = await fork(thread, at7);
    const second = await fork(thread, at7);
    expect(second.interrupts?.[0]?.id).not.toBe(first.interrupts?.[0]?.id);
    expect((await answer(second, { retry: true })).status).toBe('success');
    // Known by now, whichever branch made it.
    expect((await fork(thread, at7)).values).toMatchObject({ log: ['proposed', 'said yes', 'refunded 7'] });
    expect(payments('force')).toEqual(['force 20', 'force 7']);
    const next = await at.client.run({ graph: 'refund', thread_id: thread, input: { amount: 8 } });
    expect((await answer(next, 'yes')).interrupts).toMatchObject([{ kind: 'operation' }]);
    expect(payments('force')).toHaveLength(2);
    const live = await fork(thread, { checkpointId: await before(thread, 'pay'), effects: 'live' });
    expect(live.status).toBe('success');
    expect(payments('force')).toEqual(['force 20', 'force 7', 'force 8']);
    const free = await at.client.run({ graph: 'refund', thread_id: thread, input: { amount: 9 } });
    expect((await answer(free, 'yes')).status).toBe('success');
    expect(payments('force')).toHaveLength(4);
  });

  test('live: what is on record with these arguments is taken, other arguments run once more', async () => {
    const thread = await approved('refund', 'live');
    const checkpointId = await before(thread, 'pay');
    expect((await fork(thread, { checkpointId, effects: 'live' })).status).toBe('success');
    expect(payments('live')).toEqual(['live 20']);
    for (const _ of [1, 2]) {
      const forked = await fork(thread, { checkpointId, values: { amount: 30 }, effects: 'live' });
      expect(forked.values).toMatchObject({ log: ['proposed', 'said yes', 'refunded 30'] });
    }
    expect(payments('live')).toEqual(['live 20', 'live 30']);
  });

  test('live: a business key with other arguments is a conflict', async () => {
    const thread = await approved('keyed', 'key');
    const checkpointId = await before(thread, 'pay');
    const forked = await fork(thread, { checkpointId, values: { amount: 30 }, effects: 'live' });
    expect(forked).toMatchObject({ status: 'error', error: { code: 'OPERATION_CONFLICT' } });
    expect((await fork(thread, { checkpointId })).values).toMatchObject({
      log: ['proposed', 'said yes', 'refunded 20'],
    });
    expect(payments('key')).toEqual(['key 20']);
  });

  test('dry: nothing happens outside: the record, else the simulation, else an error', async () => {
    const thread = await approved('refund', 'dry');
    const checkpointId = await before(thread, 'pay');
    const known = await fork(thread, { checkpointId, effects: 'dry' });
    expect(known.values).toMatchObject({ log: ['proposed', 'said yes', 'refunded 20'] });
    const simulated = await fork(thread, { checkpointId, values: { amount: 30 }, effects: 'dry' });
    expect(simulated.values).toMatchObject({ log: ['proposed', 'said yes', 'would refund 30'] });
    expect(payments('dry')).toEqual(['dry 20']);
    expect(await at.client.operations({ threadId: thread })).toHaveLength(1);

    const { thread_id: other } = await at.client.run({
      graph: 'unready',
      input: { v: 'unready', amount: 1 },
    });
    const failed = await fork(other, {
      checkpointId: await before(other, 'call'),
      values: { amount: 2 },
      effects: 'dry',
    });
    expect(failed).toMatchObject({
      status: 'error',
      error: { code: 'OPERATION_NOT_EXECUTED', message: expect.stringContaining('simulate') },
    });
    expect(paid.filter((one) => one === 'mail unready')).toHaveLength(1);
  });

  test('in a subgraph that runs again are those on record', async () => {
    const { thread_id } = await at.client.run({ graph: 'nested', input: { v: 'sub' } });
    for (const node of ['sub', 'first', 'sub']) {
      const forked = await fork(thread_id, { checkpointId: await before(thread_id, node) });
      expect(forked).toMatchObject({ status: 'success', values: { log: ['first', 'mailed sub'] } });
    }
    expect(paid.filter((one) => one === 'mail sub')).toHaveLength(1);
  });
});

test('a fork whose segments are handed over at every superstep ends as in one', async () => {
  const worker = await openInstallation('fork-budget');
  try {
    await worker.startWorker(graphs, { segmentBudgetMs: 0 });
    const { thread_id } = await worker.client.run({ graph: 'plain', input: { v: '1' } });
    const point = (await worker.client.history(thread_id)).find((one) => one.pending_tasks.includes('a'));
    for (const values of [undefined, { v: 'ed' }]) {
      const { run_id } = await worker.client.fork(thread_id, {
        checkpointId: point?.checkpoint_id ?? '',
        ...(values ? { values } : {}),
      });
      const forked = await worker.client.waitForRun(run_id);
      expect(forked.values).toMatchObject({ log: ['a1', values ? 'bed' : 'b1'] });
      const [run] = await worker.client.runs(thread_id, 1);
      expect(run?.attempts).toBeGreaterThan(1);
    }
    const forks = (await worker.client.history(thread_id)).filter((one) => one.source !== 'loop');
    expect(forks.map((one) => one.source)).toEqual(['update', 'fork', 'input']);
  } finally {
    await worker.close();
  }
});
