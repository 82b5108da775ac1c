import { Annotation, interrupt, Send, START, StateGraph } from '@langchain/langgraph';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { ForkOptions } from '../../src/client/branch-options.ts';
import type { HistoryEntry } from '../../src/client/history.ts';
import type { JsonValue } from '../../src/contracts/json.ts';
import type { RunResult } from '../../src/contracts/runs.ts';
import { defineGraph, operation } from '../../src/index.ts';
import { openInstallation, type Installation } from '../support/installation.ts';

const log = () => Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] });
const State = Annotation.Root({ to: Annotation<string>(), log: log() });
const Inner = Annotation.Root({ to: Annotation<string>(), log: log() });

/** What ran, in order. */
const ran: string[] = [];
const does = (name: string) => (state: { to: string }) => {
  ran.push(name);
  return { log: [`${name} ${state.to}`] };
};
const mails: string[] = [];
const mail = async ({ to }: { to: string }) => {
  ran.push('mail');
  const sent = await operation('mail', { kind: 'exclusive', args: { to } }, () => {
    mails.push(to);
    return `mailed ${to}`;
  });
  return { log: [sent] };
};
const approve = ({ to }: { to: string }) => ({ log: [`said ${String(interrupt({ mail: to }))}`] });

const innermost = () =>
  new StateGraph({ state: Inner, output: Annotation.Root({ log: Inner.spec.log }) })
    .addNode('write', does('write'))
    .addNode('approve', approve)
    .addNode('mail', mail)
    .addEdge(START, 'write')
    .addEdge('write', 'approve')
    .addEdge('approve', 'mail')
    .compile();
const one = (sub: ReturnType<typeof innermost>) =>
  new StateGraph(State)
    .addNode('plan', does('plan'))
    .addNode('sub', sub)
    .addNode('end', does('end'))
    .addEdge(START, 'plan')
    .addEdge('plan', 'sub')
    .addEdge('sub', 'end')
    .compile();
const middle = new StateGraph(Inner).addNode('down', innermost()).addEdge(START, 'down').compile();
const graphs = {
  one: one(innermost()),
  asActivity: defineGraph({
    name: 'asActivity',
    version: '1',
    graph: one(innermost()),
    nodes: { sub: { run: 'activity' } },
  }),
  two: one(middle as unknown as ReturnType<typeof innermost>),
  invoked: new StateGraph(State)
    .addNode('call', async ({ to }) => ({ log: (await innermost().invoke({ to })).log }))
    .addEdge(START, 'call')
    .compile(),
  sends: new StateGraph(State)
    .addNode('each', innermost())
    .addConditionalEdges(START, () => ['x', 'y'].map((to) => new Send('each', { to })), ['each'])
    .compile(),
  keeps: new StateGraph(State)
    .addNode(
      'sub',
      new StateGraph(Inner).addNode('in', does('in')).addEdge(START, 'in').compile({ checkpointer: true }),
    )
    .addEdge(START, 'sub')
    .compile(),
};

let at: Installation;
beforeAll(async () => {
  at = await openInstallation('fork-subgraph');
  await at.startWorker(graphs);
});
afterAll(() => at.close());

async function answer(thread: string, value: JsonValue, interruptId?: string): Promise<RunResult> {
  const { run_id } = await at.client.answer(thread, value, { interruptId });
  return at.client.waitForRun(run_id);
}
async function fork(thread: string, options: ForkOptions): Promise<RunResult> {
  const result = await at.client.waitForRun((await at.client.fork(thread, options)).run_id);
  return result;
}
const logOf = (run: RunResult) => (run.values as { log: string[] } | undefined)?.log;
/** The innermost subgraph's checkpoints, the oldest first: before write, before approve, before mail, after it. */
async function inside(thread: string): Promise<HistoryEntry[]> {
  const all = await at.client.history(thread, 100, { subgraphs: true });
  const depth = Math.max(...all.map((entry) => entry.checkpoint_ns.split('|').length));
  const nested = all.filter((e) => e.checkpoint_ns !== '' && e.checkpoint_ns.split('|').length === depth);
  return nested.toReversed().filter((entry) => entry.source === 'loop');
}
const idOf = (entries: HistoryEntry[], index: number) => entries[index]?.checkpoint_id ?? 'none';

test.each(['one', 'two', 'invoked', 'asActivity'] as const)(
  '%s: a fork inside a subgraph goes on there; what came before is not run again, nothing is sent twice',
  async (graph) => {
    const to = `to-${graph}`;
    const { thread_id: thread } = await at.client.run({ graph, input: { to } });
    const first = await answer(thread, 'yes');
    expect(first.status).toBe('success');
    const entries = await inside(thread);
    expect(entries.length).toBe(4);
    const roots = await at.client.history(thread);
    ran.length = 0;
    // Before the mail: it is on record, and what follows runs.
    const after = await fork(thread, { checkpointId: idOf(entries, 2) });
    expect(logOf(after)).toEqual(logOf(first));
    expect(ran).toEqual(graph === 'invoked' ? ['mail'] : ['mail', 'end']);
    // Before the question: asked again, and the first branch keeps its yes.
    const again = await fork(thread, { checkpointId: idOf(entries, 1) });
    expect(again).toMatchObject({ status: 'interrupted', interrupts: [{ value: { mail: to } }] });
    const other = await answer(thread, 'sure');
    expect(logOf(other)).toEqual(logOf(first)?.map((line) => (line === 'said yes' ? 'said sure' : line)));
    expect(ran.filter((node) => node === 'write' || node === 'plan')).toEqual([]);
    expect(mails.filter((each) => each === to)).toHaveLength(1);
    expect((await at.client.history(thread)).slice(-roots.length)).toEqual(roots);
    expect(logOf(await at.client.readRun(first.run_id))).toEqual(logOf(first));
    // A branch that began in a subgraph can be forked there too.
    const own = (await inside(thread)).at(-2)?.checkpoint_id ?? '';
    expect(logOf(await fork(thread, { checkpointId: own }))).toEqual(logOf(other));
    expect(await at.client.thread(thread)).toMatchObject({ forked_at: own });
    expect(mails.filter((each) => each === to)).toHaveLength(1);
  },
);

test.each(['one', 'two'] as const)('%s: a change is made in the subgraph', async (graph) => {
  const to = `set-${graph}`;
  const { thread_id: thread } = await at.client.run({ graph, input: { to } });
  await answer(thread, 'yes');
  const entries = await inside(thread);
  const same = await fork(thread, { checkpointId: idOf(entries, 2), values: { log: ['by hand'] } });
  expect(logOf(same)?.slice(-3)).toEqual(['by hand', `mailed ${to}`, `end ${to}`]);
  const changed = await fork(thread, { checkpointId: idOf(entries, 2), values: { to: 'another' } });
  expect(changed).toMatchObject({
    status: 'interrupted',
    interrupts: [{ kind: 'operation', value: { type: 'operation_new', args: { to: 'another' } } }],
  });
  const instead = await fork(thread, {
    checkpointId: idOf(entries, 1),
    values: { log: ['said by hand'] },
    asNode: 'approve',
    effects: 'dry',
  });
  expect(logOf(instead)?.slice(-3)).toEqual(['said by hand', `mailed ${to}`, `end ${to}`]);
  expect(mails.filter((each) => each === to || each === 'another')).toEqual([to]);
});

test('of parallel tasks the one goes on inside, the others run again', async () => {
  const asked = await at.client.run({ graph: 'sends', input: {} });
  for (const { id } of asked.interrupts ?? []) await answer(asked.thread_id, 'yes', id);
  const all = await inside(asked.thread_id);
  const last = all.findLast((entry) => entry.superstep === all[0]?.superstep) ?? all[0];
  const mine = all.filter((entry) => entry.checkpoint_ns === last?.checkpoint_ns);
  const forked = await fork(asked.thread_id, { checkpointId: idOf(mine, 2) });
  expect(forked).toMatchObject({ status: 'interrupted' });
  expect(forked.interrupts).toHaveLength(1);
  expect(logOf(await answer(asked.thread_id, 'sure'))?.toSorted()).toEqual([
    'mailed x',
    'mailed y',
    'said sure',
    'said yes',
    'write x',
    'write y',
  ]);
  expect(mails.filter((each) => each === 'x' || each === 'y')).toHaveLength(2);
});

test('where no branch can begin inside, the fork is refused or fails, and the thread stays where it is', async () => {
  const kept = await at.client.run({ graph: 'keeps', input: { to: 'k' } });
  const [entry] = await inside(kept.thread_id);
  await expect(
    at.client.fork(kept.thread_id, { checkpointId: entry?.checkpoint_id ?? '' }),
  ).rejects.toMatchObject({
    code: 'INPUT_INVALID',
    message: expect.stringContaining("'sub' keeps its state"),
  });
  const { thread_id: thread } = await at.client.run({ graph: 'invoked', input: { to: 'i' } });
  const history = await at.client.history(thread);
  const failed = await fork(thread, { checkpointId: idOf(await inside(thread), 1), values: { to: 'x' } });
  expect(failed).toMatchObject({
    status: 'error',
    error: { code: 'SUBGRAPH_FORK_UNFIT', message: expect.stringContaining('called inside a node') },
  });
  expect(await at.client.history(thread)).toEqual(history);
});

test('a copy holds the subgraphs that belong to it', async () => {
  const { thread_id: thread } = await at.client.run({ graph: 'one', input: { to: 'copied' } });
  await answer(thread, 'yes');
  const { thread_id: copy } = await at.client.copyThread(thread);
  const forked = await fork(copy, { checkpointId: idOf(await inside(copy), 1) });
  expect(forked).toMatchObject({ status: 'interrupted' });
  expect((await answer(copy, 'copy')).status).toBe('success');
  expect(mails.filter((each) => each === 'copied')).toHaveLength(1);
});

test('a fork has the settings that it is given, else those of the run that made its checkpoint', async () => {
  const { thread_id: thread } = await at.client.run({ graph: 'one', input: { to: 'config' } });
  const root = (await at.client.history(thread)).find((each) => each.pending_tasks.includes('plan'));
  const checkpointId = root?.checkpoint_id ?? '';
  const limited = await fork(thread, { checkpointId, config: { recursion_limit: 1 } });
  expect(limited).toMatchObject({ status: 'error', error: { name: 'GraphRecursionError' } });
  expect((await fork(thread, { checkpointId })).status).toBe('interrupted');
  await expect(
    at.client.fork(thread, { checkpointId, config: { configurable: { thread_id: 'x' } } }),
  ).rejects.toMatchObject({ code: 'INPUT_INVALID' });
});
