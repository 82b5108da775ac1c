import { isInterrupted, INTERRUPT } from '@langchain/langgraph';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest';
import type { EffectKind } from '../../src/contracts/operations.ts';
import { listOperations, resolveOperation } from '../../src/operations/ledger-views.ts';
import type { Database } from '../../src/postgres/database.ts';
import { runChild } from './child.ts';
import { FarSide } from './far-side.ts';
import { dropLedger, openLedger, TestThread } from './fixture.ts';
import { chargeGraph, type Charge } from './one-operation.ts';

let database: Database;
let farSide: FarSide;
beforeAll(async () => {
  database = await openLedger();
});
afterAll(() => dropLedger(database));
beforeEach(async () => {
  farSide = await FarSide.start();
});
afterEach(() => farSide.stop());

const LEASE = 400;

async function crash(thread: TestThread, charge: Charge, point: string): Promise<void> {
  const order = {
    databaseUrl: inject('databaseUrl'),
    schema: database.schema,
    threadId: thread.threadId,
    charge,
    point,
  };
  expect(await runChild(order)).toMatchObject({ signal: 'SIGKILL' });
}

const statuses = async (thread: TestThread): Promise<string[]> =>
  (await listOperations(database, 'default', { threadId: thread.threadId })).map(
    (each) => `${each.status} ${each.attempts}`,
  );

describe('a worker killed by kill -9', () => {
  test.each<{ kind: EffectKind; point: string; booked: number; result: unknown }>([
    { kind: 'pure', point: 'operation:claimed', booked: 1, result: { charged: 1 } },
    { kind: 'pure', point: 'operation:effect-done', booked: 2, result: { charged: 2 } },
    { kind: 'idempotent', point: 'operation:claimed', booked: 1, result: { charged: 1 } },
    { kind: 'idempotent', point: 'operation:effect-done', booked: 1, result: { charged: 1 } },
    { kind: 'reconcilable', point: 'operation:claimed', booked: 1, result: { charged: 1 } },
    { kind: 'reconcilable', point: 'operation:effect-done', booked: 1, result: 'found' },
    { kind: 'exclusive', point: 'operation:recorded', booked: 1, result: { charged: 1 } },
  ])(
    'at $point leaves a $kind operation that the next attempt settles by itself',
    async ({ kind, point, booked, result }) => {
      const thread = await TestThread.open(database);
      const charge = { kind, lease: LEASE, farSide: farSide.url };
      await crash(thread, charge, point);
      const state = await thread.run(() => chargeGraph(charge).invoke({}, thread.config));
      expect(state).toEqual({ result });
      expect(farSide.booked).toHaveLength(booked);
      expect(new Set(farSide.booked.map((each) => each.key)).size).toBe(1);
      expect((await statuses(thread))[0]).toMatch(/^succeeded/);
    },
  );

  test.each([
    { point: 'operation:claimed', resolution: { retry: true as const }, result: { charged: 1 } },
    { point: 'operation:effect-done', resolution: { happened: { charged: 1 } }, result: { charged: 1 } },
  ])(
    'at $point leaves an exclusive operation that a person has to settle',
    async ({ point, resolution, result }) => {
      const thread = await TestThread.open(database);
      const charge: Charge = { kind: 'exclusive', lease: LEASE, farSide: farSide.url };
      await crash(thread, charge, point);
      const graph = chargeGraph(charge);
      const asked = await thread.run(() => graph.invoke({}, thread.config));
      if (!isInterrupted<{ operation_id: string }>(asked)) throw new Error('nobody was asked');
      const [question] = asked[INTERRUPT];
      expect(question).toMatchObject({
        id: expect.stringMatching(/^op-[0-9a-f]{16}-1$/) as string,
        value: { type: 'operation_unknown', tool: 'charge', args: { amount: 20 } },
      });
      expect(await statuses(thread)).toEqual(['unknown 1']);
      const operationId = question?.value?.operation_id ?? '';
      await resolveOperation(database, 'default', operationId, resolution, 'user:mira');
      expect(await thread.run(() => graph.invoke(null, thread.config))).toEqual({ result });
      expect(farSide.booked).toHaveLength(1);
    },
  );
});

test('two processes that race for one operation run it once', async () => {
  const thread = await TestThread.open(database);
  const charge: Charge = { kind: 'exclusive', key: 'order-1', lease: 5_000, farSide: farSide.url };
  const order = {
    databaseUrl: inject('databaseUrl'),
    schema: database.schema,
    threadId: thread.threadId,
    charge,
    together: 2,
  };
  const ends = await Promise.all([runChild(order), runChild(order)]);
  expect(ends.map((end) => end.output)).toEqual([{ result: { charged: 1 } }, { result: { charged: 1 } }]);
  expect(farSide.booked).toHaveLength(1);
});
