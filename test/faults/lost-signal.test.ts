import { afterAll, describe, expect, inject, test, vi } from 'vitest';
import type { JsonValue } from '../../src/contracts/json.ts';
import type { RunResult } from '../../src/contracts/runs.ts';
import { resolveOperation } from '../../src/operations/ledger-views.ts';
import type { RecordedRun } from '../../src/threads/request-run.ts';
import type { Installation } from '../support/installation.ts';
import type { AskingOrder } from './asking-child.ts';
import { bundledScript } from './bundled-script.ts';
import { endProcesses } from './processes.ts';
import { openRefundOffice } from './refund-office.ts';
import { approving, endingOf, followToTheEnd, openScene, type Scene } from './refund-scene.ts';

const office = await openRefundOffice(inject('databaseUrl'), {});
vi.stubEnv('PAYMENTS_URL', office.payments.url);
const asking = await bundledScript('asking-child');
afterAll(async () => {
  await endProcesses();
  await asking.remove();
  await office.close();
});

/** Has a process ask, which is killed at the point; gives the newest run of the newest thread. */
async function askAndDie(at: Installation, fault: string, ask: AskingOrder['ask']): Promise<RecordedRun> {
  const order: AskingOrder = {
    databaseUrl: inject('databaseUrl'),
    temporalAddress: inject('temporalAddress'),
    schema: at.schema,
    fault,
    ask,
  };
  const end = await asking.start(order).ended;
  expect(end).toMatchObject({ signal: 'SIGKILL' });
  const [thread] = await at.client.threads({ limit: 1 });
  const [run] = await at.client.runs(thread?.thread_id ?? '', 1);
  if (run === undefined) throw new Error('no run was recorded');
  return run;
}

/** `recorded`: nobody was told. `signalled`: Temporal was told, but not that it was. */
const POINTS = ['wake:recorded', 'wake:signalled'];
const cases = POINTS.flatMap((point) => ['up', 'started later'].map((worker) => ({ point, worker })));

const refunded = {
  status: 'success',
  values: { status: 'refunded', refund: { id: 're_ORDER_1' } },
  runs: ['input interrupted', 'resume success'],
  operations: ['look_up_order succeeded', 'issue_refund succeeded', 'send_reply succeeded'],
  answers: ['interrupt answered by user:reviewer'],
};

async function expectOnce(scene: Scene, last: RunResult): Promise<void> {
  const ending = await endingOf(scene, office, last);
  expect(ending).toMatchObject(refunded);
  expect(ending.books.refunds).toHaveLength(1);
  expect(ending.books.messages).toHaveLength(1);
}

describe('a client that is killed', () => {
  test.concurrent.each(POINTS)('while it starts a run, at %s: the run completes once', async (point) => {
    const scene = await openScene(office, {
      start: (at, request) => askAndDie(at, point, { startRun: request }),
    });
    try {
      expect(await scene.at.client.runs(scene.run.thread_id)).toMatchObject([{ status: 'pending' }]);
      await scene.worker();
      await expectOnce(scene, await followToTheEnd(scene, approving(scene)));
    } finally {
      await scene.close();
    }
  });

  test.concurrent.each(cases)(
    'while it answers, at $point, with its worker $worker: the answer is taken once',
    async ({ point, worker }) => {
      const scene = await openScene(office);
      const { at, run } = scene;
      try {
        const first = await scene.worker();
        const asked = await at.client.waitForRun(run.run_id);
        if (worker !== 'up') await first.stop();
        const interrupt = asked.interrupts?.[0]?.id ?? '';
        const value = { approved: true };
        const answered = await askAndDie(at, point, { answer: { thread: run.thread_id, interrupt, value } });
        if (worker !== 'up') await scene.worker();
        await expectOnce(scene, await at.client.waitForRun(answered.run_id));
        // A person who saw no reply answers again, and hears of the same run.
        const again = await at.client.answer(run.thread_id, value, { interruptId: interrupt });
        expect(again).toMatchObject({ run_id: answered.run_id, repeated: true });
      } finally {
        await scene.close();
      }
    },
  );

  test.each(['between the ledger and the answer', 'wake:recorded'])(
    'while it says what became of an operation, %s: the thread goes on once',
    async (point) => {
      const scene = await openScene(office, { kind: 'exclusive' });
      const { at, run } = scene;
      try {
        await office.payments.behave({ lose_reply: true, path: 'POST /refunds', times: 1 });
        await scene.worker();
        const asked = await at.client.waitForRun(run.run_id);
        const { run_id } = await at.client.answer(run.thread_id, true, {
          interruptId: asked.interrupts?.[0]?.id ?? '',
          actor: 'user:reviewer',
        });
        expect(await at.client.waitForRun(run_id)).toMatchObject({ interrupts: [{ kind: 'operation' }] });
        const [unknown] = await at.client.operations({ status: 'unknown' });
        const operation = unknown?.operation_id ?? '';
        const [refund] = (await office.books(scene.ticket)).refunds;
        const resolution = { happened: refund as JsonValue };
        if (point === 'wake:recorded') await askAndDie(at, point, { resolve: { operation, resolution } });
        else await resolveOperation(at.database, 'default', operation, resolution, 'user:clerk');
        // Said again, since no reply was seen; it is the same run where one was recorded.
        if (point !== 'wake:recorded') await at.client.resolveOperation(operation, resolution, 'user:clerk');
        const [newest] = await at.client.runs(run.thread_id, 1);
        const last = await at.client.waitForRun(newest?.run_id ?? '');
        const ending = await endingOf(scene, office, last);
        expect(ending).toMatchObject({
          ...refunded,
          runs: ['continue success', 'input interrupted', 'resume interrupted'],
          answers: expect.arrayContaining(['operation answered by user:clerk']) as string[],
        });
        expect([ending.books.refunds.length, ending.books.messages.length]).toEqual([1, 1]);
      } finally {
        await scene.close();
      }
    },
  );
});
