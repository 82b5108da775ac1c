import { afterAll, beforeAll, describe, expect, inject, test, vi } from 'vitest';
import type { RefundKind } from '../../graphs/refund-flow/settings.ts';
import type { JsonValue } from '../../src/contracts/json.ts';
import type { OperationResolution } from '../../src/contracts/operations.ts';
import type { RunResult } from '../../src/contracts/runs.ts';
import { endProcesses } from './processes.ts';
import { openRefundOffice, type RefundOffice } from './refund-office.ts';
import {
  approving,
  endingOf,
  followToTheEnd,
  killedAt,
  openScene,
  type Question,
  type Reviewer,
  type Scene,
} from './refund-scene.ts';

/** The refund is the ticket's second operation. */
const CLAIMED = 'operation:claimed#2';
const EFFECT_DONE = 'operation:effect-done#2';

let honouring: RefundOffice;
let forgetful: RefundOffice;

beforeAll(async () => {
  [honouring, forgetful] = await Promise.all([
    openRefundOffice(inject('databaseUrl'), { honour_idempotency_key: true }),
    openRefundOffice(inject('databaseUrl'), {}),
  ]);
});
afterAll(async () => {
  await endProcesses();
  await Promise.all([honouring.close(), forgetful.close()]);
});

/** The state of a refunded ticket; of a refund that a person vouched for when `id` is given. */
const refunded = (id = 're_ORDER_1') => ({
  status: 'success',
  values: { status: 'refunded', refund: { id, amount: 120, currency: 'EUR' } },
  thread: { status: 'idle', pending_interrupts: 0, unfinished_runs: 0 },
  operations: ['look_up_order succeeded', 'issue_refund succeeded', 'send_reply succeeded'],
  books: { refunds: [{ id: 're_ORDER_1', amount: 120 }], messages: [expect.anything()] },
});

/** Approves, and lets `settle` say what became of the refund; notes what was asked about it. */
function settling(
  scene: Scene,
  office: RefundOffice,
  settle: (scene: Scene) => Promise<OperationResolution>,
): { review: Reviewer; asked: unknown[] } {
  const asked: unknown[] = [];
  const approve = approving(scene);
  const review = async (question: Question, run: RunResult): Promise<string> => {
    if (question.kind === 'interrupt') return approve(question, run);
    const { client } = scene.at;
    const [operation] = await client.operations({ threadId: run.thread_id, status: 'unknown' });
    if (operation === undefined) throw new Error('a question about an operation whose fate is known');
    asked.push({
      node: question.node,
      tool: operation.tool,
      books: (await office.books(scene.ticket)).refunds.length,
    });
    const { answered } = await client.resolveOperation(
      operation.operation_id,
      await settle(scene),
      'user:clerk',
    );
    if (answered === undefined) throw new Error('nobody waited for the operation');
    return answered.run_id;
  };
  return { review, asked };
}

/** What a person finds in the service's books. */
const happened =
  (office: RefundOffice) =>
  async ({ ticket }: Scene): Promise<OperationResolution> => {
    const [refund] = (await office.books(ticket)).refunds;
    if (refund === undefined) throw new Error('the books hold no refund');
    return { happened: refund as JsonValue };
  };
const retry = (): Promise<OperationResolution> => Promise.resolve({ retry: true });

async function withScene<T>(
  office: RefundOffice,
  kind: RefundKind,
  work: (scene: Scene) => Promise<T>,
): Promise<T> {
  const scene = await openScene(office, { kind });
  try {
    return await work(scene);
  } finally {
    await scene.close();
  }
}

// Each office has a worker of this process only while its own tests run: the graph reads one PAYMENTS_URL.
describe('a service that honours keys', () => {
  beforeAll(() => void vi.stubEnv('PAYMENTS_URL', honouring.payments.url));

  test('idempotent: killed between effect and record, it asks again under the same key', () =>
    withScene(honouring, 'idempotent', async (scene) => {
      const before = (await honouring.payments.books()).requests['POST /refunds'] ?? 0;
      const ending = await endingOf(scene, honouring, await killedAt(scene, EFFECT_DONE));
      expect(ending).toMatchObject(refunded());
      expect(ending.books.refunds).toHaveLength(1);
      expect((await honouring.payments.books()).requests['POST /refunds']).toBe(before + 2);
    }));

  test('idempotent: a lost reply is asked for again under the same key', () =>
    withScene(honouring, 'idempotent', async (scene) => {
      await honouring.payments.behave({ lose_reply: true, path: 'POST /refunds', times: 1 });
      await scene.worker();
      const last = await followToTheEnd(scene, approving(scene));
      expect(await endingOf(scene, honouring, last)).toMatchObject(refunded());
    }));
});

describe('a service that does not honour keys', () => {
  beforeAll(() => void vi.stubEnv('PAYMENTS_URL', forgetful.payments.url));

  test.concurrent.each([CLAIMED, EFFECT_DONE])('reconcilable: killed at %s, the service is asked', (point) =>
    withScene(forgetful, 'reconcilable', async (scene) => {
      const ending = await endingOf(scene, forgetful, await killedAt(scene, point));
      expect(ending).toMatchObject(refunded());
      expect(ending.books.refunds).toHaveLength(1);
    }),
  );

  test.concurrent.each([
    { point: EFFECT_DONE, said: 'happened', settle: (office: RefundOffice) => happened(office), books: 1 },
    { point: CLAIMED, said: 'retry', settle: () => retry, books: 0 },
  ])(
    'exclusive: killed at $point, the thread waits for a person, who says $said',
    ({ point, settle, books }) =>
      withScene(forgetful, 'exclusive', async (scene) => {
        const { review, asked } = settling(scene, forgetful, settle(forgetful));
        const ending = await endingOf(scene, forgetful, await killedAt(scene, point, review));
        expect(asked).toEqual([{ node: 'issue_refund', tool: 'issue_refund', books }]);
        expect(ending).toMatchObject(refunded());
        expect(ending.books.refunds).toHaveLength(1);
        expect(ending.answers.sort()).toEqual([
          'interrupt answered by user:reviewer',
          'operation answered by user:clerk',
        ]);
      }),
  );

  test('reconcilable: a lost reply is looked up', () =>
    withScene(forgetful, 'reconcilable', async (scene) => {
      await forgetful.payments.behave({ lose_reply: true, path: 'POST /refunds', times: 1 });
      await scene.worker();
      const last = await followToTheEnd(scene, approving(scene));
      const ending = await endingOf(scene, forgetful, last);
      expect(ending).toMatchObject(refunded());
      expect(ending.books.refunds).toHaveLength(1);
    }));

  test('exclusive: after a lost reply the thread waits for a person', () =>
    withScene(forgetful, 'exclusive', async (scene) => {
      await forgetful.payments.behave({ lose_reply: true, path: 'POST /refunds', times: 1 });
      await scene.worker();
      const { review, asked } = settling(scene, forgetful, happened(forgetful));
      const ending = await endingOf(scene, forgetful, await followToTheEnd(scene, review));
      expect(asked).toEqual([{ node: 'issue_refund', tool: 'issue_refund', books: 1 }]);
      expect(ending).toMatchObject(refunded());
      expect(ending.books.refunds).toHaveLength(1);
    }));
});
