import { execFileSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { removeHome, serverStatus, up } from '../../src/dev/index.ts';
import { threadWorkflowId } from '../../src/contracts/ids.ts';
import { settings } from '../dev/homes.ts';
import { makeRunFolder } from '../dev/run-folders.ts';
import { until } from '../support/eventually.ts';
import { openInstallation, type Installation } from '../support/installation.ts';
import { startEffectCounter } from './effect-counter.ts';
import { endProcesses } from './processes.ts';
import {
  effectsOf,
  KINDS,
  logOf,
  orderRun,
  review,
  startShopWorker,
  writeRelease,
  type How,
  type Order,
} from './shop.ts';

const LIMIT = 240_000;
/** How long sleepers sleep and approvals wait, in seconds: it passes while the server is away. */
const SLEEP = 8;

const farSide = await startEffectCounter();
const folder = makeRunFolder(Number(process.env['PERDURE_TEST_RUN'] ?? process.pid));
const project = writeRelease(folder, '17');
const homes: string[] = [];
afterAll(async () => {
  await endProcesses();
  for (const home of homes) await removeHome({ home });
  await farSide.close();
});

/** A pair of servers of the test's own, an installation on it, and one worker process. */
async function begin(name: string) {
  const home = join(folder, name);
  homes.push(home);
  const servers = await up({ home, ...settings() });
  const at = await openInstallation('lost', servers);
  const worker = startShopWorker({ ...servers, schema: at.schema }, project, farSide, { SLEEP: `${SLEEP}s` });
  await worker.said;
  return { home, servers, at, worker };
}

async function stopServer(home: string, server: 'postgres' | 'temporal'): Promise<void> {
  const { pid } = (await serverStatus({ home }))[server];
  if (pid === undefined) throw new Error(`${server} does not run`);
  // For Postgres: at once, but in good order.
  process.kill(pid, 'SIGINT');
  await until(async () => !(await serverStatus({ home }))[server].alive, 30_000);
}

const HOWS: How[] = ['runs', 'asks', 'sleeps', 'times_out', 'runs'];
/** @param inputs how many runs queue on every fifth thread */
function makeOrders(prefix: string, number: number, inputs: number): Order[] {
  const how = HOWS[number % HOWS.length] ?? 'runs';
  const kind = KINDS[number % KINDS.length] ?? 'idempotent';
  return Array.from({ length: number % 5 === 4 ? inputs : 1 }, (_, place) => ({
    key: `${prefix}-${number}-${place}`,
    how,
    kind,
  }));
}
const happenedTo = (prefix: string) =>
  Object.fromEntries(Object.entries(farSide.happened()).filter(([key]) => key.includes(`:${prefix}-`)));

async function toTheEnd(at: Installation, may: (threadId: string) => boolean): Promise<void> {
  await until(async () => {
    await review(at, farSide, may);
    const threads = await at.client.threads({ limit: 500 });
    return threads.every(({ status }) => status === 'idle');
  }, LIMIT - 60_000);
}

test(
  'Temporal’s data is deleted under fifty threads: all go on and end as if nothing had been, none late',
  { timeout: LIMIT },
  async () => {
    const { home, servers, at, worker } = await begin('temporal-lost');
    const threads = Array.from({ length: 50 }, (_, number) => ({
      thread: `thread-${number}`,
      orders: makeOrders('t', number, 3),
    }));
    for (const { thread, orders } of threads)
      for (const order of orders) await at.client.startRun(orderRun(thread, order));
    // All kinds of places: some wait, sleep or have a deadline, others are under way or queue.
    await until(async () => (await at.client.threads({ status: 'sleeping', limit: 50 })).length > 0, 60_000);
    await stopServer(home, 'temporal');
    const files = execFileSync('find', [home, '-name', 'temporal.db*'], { encoding: 'utf8' })
      .trim()
      .split('\n');
    expect(files).toContainEqual(expect.stringMatching(/temporal\.db$/));
    for (const file of files) rmSync(file);
    // Answers that are given while there is no Temporal.
    await review(
      at,
      farSide,
      (thread) =>
        HOWS[Number(thread.split('-')[1]) % HOWS.length] === 'asks' && Number(thread.split('-')[1]) % 2 === 1,
    );
    const again = await up({ home, ...settings() });
    expect(again).toMatchObject({ temporalAddress: servers.temporalAddress, temporal: { started: 'now' } });
    await toTheEnd(at, (thread) => HOWS[Number(thread.split('-')[1]) % HOWS.length] !== 'times_out');

    expect(happenedTo('t')).toEqual(effectsOf(threads.flatMap(({ orders }) => orders)));
    for (const { thread, orders } of threads) {
      const runs = await at.client.runs(thread);
      const last = await at.client.readRun(runs[0]?.run_id ?? '');
      const how = orders[0]?.how;
      const approve = how === 'asks' ? 'approve yes' : how === 'times_out' ? 'approve late' : 'approve';
      const each = ['reserve', 'pause', approve, 'charge', 'ship'].map((node) => `17 ${node}`);
      expect(logOf(last), thread).toEqual(orders.flatMap(() => each));
      for (const run of runs) expect(['success', 'interrupted'], thread).toContain(run.status);
    }
    worker.kill('SIGTERM');
    await worker.ended;
    await at.close();
  },
);

test(
  'Postgres is put back to a backup under a living Temporal: nothing hangs, and what was done since is found',
  { timeout: LIMIT },
  async () => {
    const { home, at, worker } = await begin('postgres-restored');
    const orders = Array.from({ length: 12 }, (_, number) => ({
      thread: `thread-${number}`,
      order: { key: `p-${number}`, how: 'asks', kind: KINDS[number % KINDS.length] ?? 'idempotent' } as Order,
    }));
    for (const { thread, order } of orders.slice(0, 9)) await at.client.startRun(orderRun(thread, order));
    await until(
      async () => (await at.client.threads({ status: 'interrupted', limit: 50 })).length === 9,
      60_000,
    );
    const dataDir = (await serverStatus({ home })).postgres.dataDir ?? '';
    const backup = `${dataDir}.backup`;
    await stopServer(home, 'postgres');
    // As its owner, which need not be ours.
    execFileSync('cp', ['-a', dataDir, backup]);
    await up({ home, ...settings() });

    // What the backup does not know: answers with their effects, and whole threads.
    for (const { thread, order } of orders.slice(9)) await at.client.startRun(orderRun(thread, order));
    await until(
      async () => (await at.client.threads({ status: 'interrupted', limit: 50 })).length === 12,
      60_000,
    );
    await until(async () => {
      await review(at, farSide, (thread) => Number(thread.split('-')[1]) < 6);
      return (await at.client.threads({ status: 'idle', limit: 50 })).length === 6;
    }, 60_000);
    const before = happenedTo('p');
    expect(before['charge:p-2']).toBe(1);

    await stopServer(home, 'postgres');
    rmSync(dataDir, { recursive: true });
    execFileSync('mv', [backup, dataDir]);
    await up({ home, ...settings() });

    expect((await at.client.threads({ limit: 50 })).length).toBe(9);
    // Their workflows are ended, with a reason.
    await until(async () => {
      const { status } = await at.temporal.workflow
        .getHandle(threadWorkflowId(at.schema, 'default', 'thread-11'))
        .describe();
      return status.name === 'TERMINATED';
    }, 60_000);
    await until(async () => {
      await review(at, farSide, () => true);
      return (await at.client.threads({ limit: 50 })).every(({ status }) => status === 'idle');
    }, 120_000);
    // The far side was asked, or a person, about what the ledger had lost; nothing was done again.
    const charges = (await at.client.operations({ limit: 100 })).filter(({ tool }) => tool === 'charge');
    const resolvedBy = (number: number) =>
      charges.find(({ operation_id }) => operation_id === `key:charge:p-${number}`)?.resolved_by;
    expect([1, 4].map(resolvedBy)).toEqual(['lookup', 'lookup']);
    expect([2, 5].map(resolvedBy)).toEqual(['user:reviewer', 'user:reviewer']);
    expect(happenedTo('p')).toEqual({
      ...before,
      ...effectsOf(orders.slice(0, 9).map(({ order }) => order)),
    });
    for (const { thread } of orders.slice(0, 9)) {
      const [last] = await at.client.runs(thread);
      expect(logOf(await at.client.readRun(last?.run_id ?? '')), thread).toEqual(
        ['reserve', 'pause', 'approve yes', 'charge', 'ship'].map((node) => `17 ${node}`),
      );
    }
    // Who asked for the threads that are gone asks again.
    const again = await at.client.startRun(
      orderRun('thread-11', { key: 'p-again', how: 'runs', kind: 'idempotent' }),
    );
    expect(await at.client.waitForRun(again.run_id)).toMatchObject({ status: 'success' });
    worker.kill('SIGTERM');
    await worker.ended;
    await at.close();
  },
);
