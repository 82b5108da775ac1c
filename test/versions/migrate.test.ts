import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { graphTaskQueue, threadWorkflowId } from '../../src/contracts/ids.ts';
import type { ThreadMigration } from '../../src/contracts/migrate-workflow.ts';
import type { JsonValue } from '../../src/contracts/json.ts';
import type { MigrateOptions } from '../../src/client/migrate.ts';
import { eventually, until } from '../support/eventually.ts';
import { openInstallation, type Installation } from '../support/installation.ts';
import { tableContents } from '../support/table-contents.ts';
import type { ThreadWorker } from '../../workers/thread-worker.ts';
import { addCurrency, doneFor, held, holding, order17, order18, parallel, toCurrency } from './graphs.ts';

let at: Installation;
const workers: ThreadWorker[] = [];
beforeAll(async () => {
  at = await openInstallation();
});
afterEach(async () => {
  for (const letGo of held.values()) letGo();
  held.clear();
  await stopWorkers();
  await at.database.query(`DELETE FROM ${at.database.table('workers')}`);
});
afterAll(() => at.close());

async function serve(...graphs: unknown[]): Promise<ThreadWorker> {
  const worker = await at.startWorker(Object.fromEntries(graphs.map((graph, place) => [`g${place}`, graph])));
  workers.push(worker);
  return worker;
}
async function stopWorkers(): Promise<void> {
  await Promise.all(workers.splice(0).map((worker) => worker.stop()));
}
async function migrate(options: MigrateOptions): Promise<ThreadMigration[]> {
  return all(at.client.migrateThreads({ actor: 'user:ada', ...options }));
}
async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}
const newKey = () => crypto.randomUUID().slice(0, 8);
const run = (graph: string, key: string, version?: string) => ({
  graph,
  thread_id: key,
  input: { key, amount: 20, log: [] } as JsonValue,
  ...(version === undefined ? {} : { version }),
});
/** A thread that waits for a yes under version 17. */
async function asked(key = newKey()): Promise<{ key: string; id: string }> {
  const result = await at.client.run(run('order', key, '17'));
  return { key, id: result.interrupts?.[0]?.id ?? '' };
}
const events = async (key: string) =>
  (
    await at.database.query(`SELECT * FROM ${at.database.table('thread_migrations')} WHERE thread_id = $1`, [
      key,
    ])
  ).rows;

test('a waiting thread goes on under the new version, with the same question and the values it was given', async () => {
  await serve(order17);
  const { key, id } = await asked();
  const before = await at.client.history(key);
  await serve(order18(toCurrency));
  expect(await migrate({ graph: 'order', to: '18', threadIds: [key] })).toEqual([
    { thread_id: key, from: '17', to: '18', outcome: 'migrated', reason: null, changed: ['amount'] },
  ]);

  expect(await at.client.thread(key)).toMatchObject({
    version: '18',
    status: 'interrupted',
    pending_interrupts: 1,
  });
  expect((await at.client.interrupts({ thread_id: key, status: 'pending' })).map((one) => one.id)).toEqual([
    id,
  ]);
  const [head, kept, ...older] = await at.client.history(key);
  expect(head).toMatchObject({
    source: 'update',
    graph_version: 'order@18',
    parent_checkpoint_id: kept?.checkpoint_id,
    pending_tasks: ['ask'],
  });
  expect(kept).toMatchObject({ ...before[0], checkpoint_id: kept?.checkpoint_id });
  expect(older).toEqual(before.slice(1));
  expect(await at.client.diff(key, kept?.checkpoint_id ?? '', head?.checkpoint_id ?? '')).toMatchObject({
    changes: [{ path: ['amount'], before: 20, after: { value: 20, currency: 'EUR' } }],
  });
  expect(await events(key)).toMatchObject([
    {
      from_version: '17',
      to_version: '18',
      path: ['17->18'],
      actor: 'user:ada',
      checkpoint_before: kept?.checkpoint_id,
      checkpoint_after: head?.checkpoint_id,
    },
  ]);

  const { run_id } = await at.client.answer(key, 'yes', { interruptId: id });
  expect(await at.client.waitForRun(run_id)).toMatchObject({
    version: '18',
    status: 'success',
    values: { log: ['17 write', '18 ask yes', '18 pay 20 EUR', '18 thank'] },
  });
  expect(doneFor(key)).toEqual(['17 write', '18 ask yes', '18 pay 20 EUR', '18 thank']);
  expect((await at.client.runs(key)).map((one) => one.version)).toEqual(['18', '17']);
});

test('a dry run tells the same, and writes nothing', async () => {
  await serve(order17, order18(toCurrency));
  const { key } = await asked();
  await until(async () => (await at.client.thread(key)).status === 'interrupted');
  const before = await tableContents(at.database);
  expect(await migrate({ graph: 'order', to: '18', threadIds: [key], dryRun: true })).toMatchObject([
    { outcome: 'migrates', changed: ['amount'] },
  ]);
  expect(await tableContents(at.database)).toEqual(before);
});

test('an answer that no worker was there to take goes to the right task after the migration, and needs no old worker', async () => {
  const old = await serve(order17);
  const { key } = await asked();
  await old.stop();
  const { run_id } = await at.client.answer(key, 'yes');
  await serve(order18(toCurrency));
  expect(await migrate({ graph: 'order', to: '18', from: '17', threadIds: [key] })).toMatchObject([
    { outcome: 'migrated' },
  ]);
  expect(await at.client.waitForRun(run_id)).toMatchObject({ version: '18', status: 'success' });
  expect(doneFor(key)).toEqual(['17 write', '18 ask yes', '18 pay 20 EUR', '18 thank']);
  const { taskQueue } = await at.temporal.workflow
    .getHandle(threadWorkflowId(at.schema, 'default', key))
    .describe();
  expect(taskQueue).toBe(graphTaskQueue(at.schema, 'order', '18'));
});

test('questions of parallel tasks and of a subgraph keep their ids, and each answer reaches its own task', async () => {
  await serve(parallel('17'));
  const key = newKey();
  const first = await at.client.run(run('parallel', key));
  const ids = first.interrupts?.map(({ id }) => id) ?? [];
  expect(ids).toHaveLength(3);
  const answerTo = async (value: string) => {
    const question = first.interrupts?.find((one) => one.value === value);
    const { run_id } = await at.client.answer(key, `yes to ${value}`, { interruptId: question?.id ?? '' });
    return at.client.waitForRun(run_id);
  };
  // One is answered before: its result is a pending write of the checkpoint that is migrated.
  await answerTo('each 2?');
  await stopWorkers();
  await serve(parallel('18', { '17->18': (values) => ({ ...values, amount: 7 }) }));
  expect(await migrate({ graph: 'parallel', to: '18', threadIds: [key] })).toMatchObject([
    { outcome: 'migrated' },
  ]);
  const left = await at.client.interrupts({ thread_id: key, status: 'pending' });
  expect(left.map(({ id }) => id).every((id) => ids.includes(id))).toBe(true);
  expect(await answerTo('deep?')).toMatchObject({ status: 'interrupted' });
  expect(await answerTo('each 1?')).toMatchObject({ status: 'success' });
  expect(doneFor(key).toSorted()).toEqual([
    '17 each 2 yes to each 2?',
    '18 deep yes to deep?',
    '18 each 1 yes to each 1?',
    '18 sum 3',
  ]);
});

test('several versions are crossed step by step', async () => {
  await serve(order17);
  const { key } = await asked();
  const path = {
    '18->19': async (values: Record<string, unknown>) => ({
      ...values,
      log: [...(values['log'] as string[]), 'to 19'],
    }),
    ...toCurrency,
  };
  await serve(order18(path, 'ask', '19'));
  expect(await migrate({ graph: 'order', to: '19', threadIds: [key] })).toMatchObject([
    { from: '17', to: '19', outcome: 'migrated', changed: ['amount', 'log'] },
  ]);
  expect(await events(key)).toMatchObject([{ path: ['17->18', '18->19'] }]);
  const { run_id } = await at.client.answer(key, 'yes');
  expect(await at.client.waitForRun(run_id)).toMatchObject({
    values: { log: ['17 write', 'to 19', '19 ask yes', '19 pay 20 EUR', '19 thank'] },
  });
});

test('is refused when a node is gone or values do not fit; nothing is written, and the thread goes on under its own version', async () => {
  const refusing = {
    gone: [order18({ '17->gone': addCurrency }, 'renamed', 'gone'), `resume node 'ask' is gone in gone`],
    type: [
      order18(
        { '17->type': (values) => ({ ...values, amount: { value: '20', currency: 'EUR' } }) },
        'ask',
        'type',
      ),
      `values don't fit: amount.value: Invalid input`,
    ],
    channel: [
      order18({ '17->channel': ({ amount: _, ...values }) => ({ ...values, sum: 20 }) }, 'ask', 'channel'),
      `values don't fit: sum: the graph has no such channel`,
    ],
    function: [
      order18(
        { '17->function': ({ amount: _, ...values }) => ({ ...values, amount: undefined, log: [() => 1] }) },
        'ask',
        'function',
      ),
      `values don't fit: log.0`,
    ],
    throws: [
      order18(
        {
          '17->throws': () => {
            throw new TypeError('no such field');
          },
        },
        'ask',
        'throws',
      ),
      'migration 17->throws failed: TypeError: no such field',
    ],
  } as const;
  await serve(order17, ...Object.values(refusing).map(([graph]) => graph));
  const { key, id } = await asked();
  const before = await tableContents(at.database);
  for (const [to, [, reason]] of Object.entries(refusing))
    expect(await migrate({ graph: 'order', to, threadIds: [key] })).toMatchObject([
      { outcome: 'refused', reason: expect.stringContaining(reason) },
    ]);
  expect(await tableContents(at.database)).toEqual(before);
  const { run_id } = await at.client.answer(key, 'yes', { interruptId: id });
  expect(await at.client.waitForRun(run_id)).toMatchObject({ version: '17', status: 'success' });
});

test('without a declared path, or with a version that nobody serves, nothing moves', async () => {
  await serve(order17);
  const { key } = await asked();
  await at.register({ later: order18({}, 'ask', '20') });
  await expect(migrate({ graph: 'order', to: '20' })).rejects.toMatchObject({ code: 'VERSION_NOT_SERVED' });
  await expect(migrate({ graph: 'order', to: '99' })).rejects.toMatchObject({ code: 'GRAPH_UNKNOWN' });
  await serve(order18({ '16->20': (values) => values }, 'ask', '20'));
  expect(await migrate({ graph: 'order', to: '20', threadIds: [key] })).toMatchObject([
    { outcome: 'no_path', reason: 'no migration from 17' },
  ]);
  expect(await at.client.thread(key)).toMatchObject({ version: '17' });
});

test('a thread with a run in hand is busy; once its worker is gone, it goes on from its last checkpoint', async () => {
  const old = await serve(holding('17'));
  const key = newKey();
  const { run_id } = await at.client.startRun(run('holding', key));
  const letGo = await eventually(() => held.get(key));
  held.delete(key);
  await serve(holding('18', { '17->18': (values) => values }));
  const ask = () => migrate({ graph: 'holding', to: '18', threadIds: [key] });
  expect(await ask()).toMatchObject([{ outcome: 'busy' }]);
  // As if that worker had died: it gives no sign of life, though its node is still about to end.
  await at.database.query(`DELETE FROM ${at.database.table('workers')} WHERE worker_id = $1`, [old.id]);
  expect(await ask()).toMatchObject([{ outcome: 'migrated' }]);
  letGo();
  (await eventually(() => held.get(key)))();
  expect(await at.client.waitForRun(run_id)).toMatchObject({
    version: '18',
    status: 'success',
    values: { log: ['17 first', '18 hold', '18 last'] },
  });
  expect(doneFor(key)).toEqual(['17 first', '17 hold', '18 hold', '18 last']);
});

test('a workflow that is opened on the old queue by somebody who did not know is ended, and the run goes on', async () => {
  await serve(order17);
  const { key } = await asked();
  await serve(order18(toCurrency));
  await migrate({ graph: 'order', to: '18', threadIds: [key] });
  const workflowId = threadWorkflowId(at.schema, 'default', key);
  await until(
    async () => (await at.temporal.workflow.getHandle(workflowId).describe()).status.name !== 'RUNNING',
  );
  await at.temporal.workflow.start('thread', {
    workflowId,
    taskQueue: graphTaskQueue(at.schema, 'order', '17'),
    args: [{ tenant_id: 'default', thread_id: key, graph: 'order', version: '17' }],
  });
  const { run_id } = await at.client.answer(key, 'yes');
  expect(await at.client.waitForRun(run_id)).toMatchObject({ version: '18', status: 'success' });
  expect(doneFor(key)).toEqual(['17 write', '18 ask yes', '18 pay 20 EUR', '18 thank']);
});

test('an ended thread takes new input under its new version, and shows its old output as it was', async () => {
  await serve(order17);
  const { key } = await asked();
  const { run_id } = await at.client.answer(key, 'yes');
  const before = await at.client.waitForRun(run_id);
  await serve(order18(toCurrency));
  expect(await migrate({ graph: 'order', to: '18', threadIds: [key] })).toMatchObject([
    { outcome: 'migrated' },
  ]);
  expect(await at.client.readRun(run_id)).toEqual(before);
  const [, kept] = await at.client.history(key);
  await expect(at.client.fork(key, { checkpointId: kept?.checkpoint_id ?? '' })).rejects.toMatchObject({
    code: 'VERSION_MISMATCH',
  });
  const again = await at.client.run({
    graph: 'order',
    thread_id: key,
    input: { key, amount: { value: 5, currency: 'USD' } },
  });
  expect(again).toMatchObject({
    status: 'interrupted',
    version: '18',
    interrupts: [{ value: 'pay 5 USD?' }],
  });
});

test('a migration twice, and of a thread without a checkpoint', async () => {
  await serve(order18(toCurrency));
  await at.register({ order17 });
  const key = newKey();
  const { run_id } = await at.client.startRun(run('order', key, '17'));
  const ask = () => migrate({ graph: 'order', to: '18', threadIds: [key] });
  expect(await ask()).toMatchObject([{ outcome: 'migrated', changed: [] }]);
  expect(await ask()).toMatchObject([{ outcome: 'already' }]);
  // Its input was for version 17, and is refused by the schema of 18.
  expect(await at.client.waitForRun(run_id)).toMatchObject({ version: '18', status: 'error' });
  expect(await events(key)).toMatchObject([{ checkpoint_before: null, checkpoint_after: null }]);
});
