import { join } from 'node:path';
import { afterAll, expect, inject, test, vi } from 'vitest';
import { removeHome, serverStatus, up, type RunningServers } from '../../src/dev/index.ts';
import { settings } from '../dev/homes.ts';
import { until } from '../support/eventually.ts';
import { endProcesses } from './processes.ts';
import { openRefundOffice } from './refund-office.ts';
import { approving, endingOf, followToTheEnd, openScene, type Scene } from './refund-scene.ts';

// The far side is nobody's to kill: it keeps its books on the server of the whole test run.
const office = await openRefundOffice(inject('databaseUrl'), { honour_idempotency_key: true });
vi.stubEnv('PAYMENTS_URL', office.payments.url);
const home = join(office.folder, '.perdure');
const servers = await up({ home, ...settings() });

afterAll(async () => {
  await endProcesses();
  await removeHome({ home });
  await office.close();
});

type Server = 'postgres' | 'temporal';

async function killAndRestart(server: Server): Promise<void> {
  const { pid } = (await serverStatus({ home }))[server] ?? {};
  if (pid === undefined) throw new Error(`${server} does not run`);
  process.kill(pid, 'SIGKILL');
  const again: RunningServers = await up({ home, ...settings() });
  expect(again[server]).toMatchObject({ started: 'now' });
  expect([again.databaseUrl, again.temporalAddress]).toEqual([servers.databaseUrl, servers.temporalAddress]);
}

const requests = async (request: string): Promise<number> =>
  (await office.payments.books()).requests[request] ?? 0;

/** Starts a ticket that has got to where the far side works on `request`, and takes its time. */
async function isInside(request: 'GET /orders' | 'POST /refunds' | 'POST /messages', work: () => unknown) {
  const before = await requests(request);
  await office.payments.behave({ slow_reply_ms: 3_000, path: request, times: 1 });
  work();
  await until(async () => (await requests(request)) > before, 30_000);
}

/** Answers, and looks again when the server that was killed was still away. */
async function follow(scene: Scene) {
  return endingOf(scene, office, await followToTheEnd(scene, approving(scene)));
}

test.each<Server>(['temporal', 'postgres'])(
  '%s is killed and started again in the middle of a ticket: the worker lives, the ticket ends as ever',
  async (server) => {
    const scene = await openScene(office, { servers });
    const { client } = scene.at;
    try {
      const worker = scene.workerProcess();
      // While the order is looked up, while a person is waited for, and between the payment and its record.
      await isInside('GET /orders', () => undefined);
      await killAndRestart(server);
      await until(async () => (await client.readRun(scene.run.run_id)).status === 'interrupted', 60_000);
      await killAndRestart(server);
      const ended = { of: undefined as Promise<unknown> | undefined };
      await isInside('POST /refunds', () => {
        ended.of = follow(scene);
      });
      await killAndRestart(server);
      const ending = await ended.of;
      expect(ending).toMatchObject({
        status: 'success',
        values: { status: 'refunded', refund: { id: 're_ORDER_1' } },
        thread: { status: 'idle', pending_interrupts: 0, unfinished_runs: 0 },
        supersteps: [-1, 0, 1, 2, 3, 4, 5, 6],
        runs: ['input interrupted', 'resume success'],
        operations: ['look_up_order succeeded', 'issue_refund succeeded', 'send_reply succeeded'],
      });
      const { refunds, messages } = await office.books(scene.ticket);
      expect([refunds.length, messages.length]).toEqual([1, 1]);
      worker.kill('SIGTERM');
      expect(await worker.ended).toMatchObject({ code: 0 });
    } finally {
      await scene.close();
    }
  },
  180_000,
);
