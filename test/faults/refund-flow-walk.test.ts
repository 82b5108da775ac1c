import { afterAll, describe, expect, inject, test, vi } from 'vitest';
import { graph } from '../../graphs/refund-flow/graph.ts';
import { passedPoints } from './passed-points.ts';
import { endProcesses } from './processes.ts';
import { openRefundOffice } from './refund-office.ts';
import { approving, endingOf, followToTheEnd, killedAt, openScene, type Ending } from './refund-scene.ts';

// The list of tests is made from an undisturbed run, so that no point can be forgotten.
const office = await openRefundOffice(inject('databaseUrl'), { honour_idempotency_key: true });
vi.stubEnv('PAYMENTS_URL', office.payments.url);
const undisturbed = await passedPoints(carryUndisturbed);

afterAll(async () => {
  await endProcesses();
  await office.close();
});

async function carryUndisturbed(): Promise<Ending> {
  const scene = await openScene(office);
  try {
    await scene.worker();
    return await endingOf(scene, office, await followToTheEnd(scene, approving(scene)));
  } finally {
    await scene.close();
  }
}

describe('an approved ticket', () => {
  const { points, result } = undisturbed;

  test('that nothing disturbs ends refunded, with one refund and one message', () => {
    expect(result).toMatchObject({
      status: 'success',
      values: { status: 'refunded', refund: { id: 're_ORDER_1', amount: 120, currency: 'EUR' } },
      thread: { status: 'idle', pending_interrupts: 0, unfinished_runs: 0 },
      runs: ['input interrupted', 'resume success'],
      operations: ['look_up_order succeeded', 'issue_refund succeeded', 'send_reply succeeded'],
      answers: ['interrupt answered by user:reviewer'],
    });
    expect(result.books.refunds).toHaveLength(1);
    expect(result.books.messages).toHaveLength(1);
  });

  test('passes a point at every superstep, in every node, at every operation and segment', () => {
    const nodes = Object.keys(graph.nodes).filter((node) => node !== '__start__');
    const times = (point: string, count: number) =>
      Array.from({ length: count }, (_, index) => `${point}#${index + 1}`);
    expect(points).toEqual(
      expect.arrayContaining([
        ...result.supersteps.map((step) => `superstep:${step}#1`),
        ...nodes.map((node) => `node:${node}#1`),
        'node:wait_for_human_approval#2',
        ...['claimed', 'effect-done', 'recorded'].flatMap((point) =>
          times(`operation:${point}`, result.operations.length),
        ),
        ...times('checkpoint:before-put', result.supersteps.length),
        'checkpoint:writes-stored#1',
        ...['begun', 'ending', 'finished'].flatMap((point) => times(`segment:${point}`, 2)),
      ]),
    );
  });

  test.concurrent.each(points)(
    'whose worker is killed at %s ends as if nothing had been',
    async (point) => {
      const scene = await openScene(office);
      try {
        const ending = await endingOf(scene, office, await killedAt(scene, point));
        expect(ending).toEqual(result);
      } finally {
        await scene.close();
      }
    },
    90_000,
  );
});
