import { afterAll, expect, inject, test, vi } from 'vitest';
import { threadWorkflowId } from '../../src/contracts/ids.ts';
import { until } from '../support/eventually.ts';
import { endProcesses } from './processes.ts';
import { openRefundOffice } from './refund-office.ts';
import { approving, endingOf, followToTheEnd, openScene, type Scene } from './refund-scene.ts';

const office = await openRefundOffice(inject('databaseUrl'), { honour_idempotency_key: true });
vi.stubEnv('PAYMENTS_URL', office.payments.url);
afterAll(async () => {
  await endProcesses();
  await office.close();
});

/** From the checkpoint that a worker stopped at to the next one, made by another worker. */
const HAND_OVER_MS = 2_000;

/** What Temporal has on the attempts of the thread's segments. */
async function attemptsOf({ at, run }: Scene): Promise<{ attempts: number[]; failures: string[] }> {
  const id = threadWorkflowId(at.schema, 'default', run.thread_id);
  const { events = [] } = await at.temporal.workflow.getHandle(id).fetchHistory();
  const started = (events ?? []).flatMap((event) => event.activityTaskStartedEventAttributes ?? []);
  return {
    attempts: started.map((attributes) => attributes.attempt ?? 0),
    failures: (events ?? []).flatMap((event) => {
      if (event.activityTaskFailedEventAttributes) return 'activity failed';
      if (event.activityTaskTimedOutEventAttributes) return 'activity timed out';
      if (event.workflowTaskTimedOutEventAttributes) return 'workflow task timed out';
      return event.workflowTaskFailedEventAttributes ? 'workflow task failed' : [];
    }),
  };
}

test('a worker told to stop hands its run over at the next superstep, and no attempt failed', async () => {
  await office.payments.behave({ slow_ms: 3_000, path: 'GET /orders', times: 1 });
  const scene = await openScene(office);
  const { client } = scene.at;
  try {
    const stopping = scene.workerProcess();
    const inNode = async () => ((await office.payments.books()).requests['GET /orders'] ?? 0) === 1;
    await until(inNode, 30_000);
    const takingOver = await scene.worker();
    stopping.kill('SIGTERM');
    const told = Date.now();
    expect(await stopping.ended).toMatchObject({ code: 0, signal: null });
    const last = await followToTheEnd(scene, approving(scene));

    const history = (await client.history(scene.run.thread_id)).toReversed();
    // Superstep 2 looked the order up, in the worker that was told to stop meanwhile.
    const at = (superstep: number) =>
      Date.parse(history.find((entry) => entry.superstep === superstep)?.created_at ?? '');
    expect(at(2)).toBeGreaterThan(told);
    expect(at(3) - at(2)).toBeLessThan(HAND_OVER_MS);
    const ending = await endingOf(scene, office, last);
    expect(ending).toMatchObject({ status: 'success', values: { status: 'refunded' } });
    expect(ending.supersteps).toEqual([-1, 0, 1, 2, 3, 4, 5, 6]);
    expect([ending.books.refunds.length, ending.books.messages.length]).toEqual([1, 1]);
    // To the order, from there to the question, and from the answer to the end.
    expect(await attemptsOf(scene)).toEqual({ attempts: [1, 1, 1], failures: [] });
    expect(await client.runs(scene.run.thread_id)).toMatchObject([{ attempts: 1 }, { attempts: 2 }]);
    await takingOver.stop();
  } finally {
    await scene.close();
  }
}, 90_000);
