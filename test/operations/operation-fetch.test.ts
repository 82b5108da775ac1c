import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { currentOperation, type OperationCall } from '../../src/operations/current-operation.ts';
import { installOperationFetch, operationFetch } from '../../src/operations/operation-fetch.ts';
import { getOperation } from '../../src/operations/ledger-views.ts';
import { operation } from '../../src/operations/operation.ts';
import type { Database } from '../../src/postgres/database.ts';
import { FarSide } from './far-side.ts';
import { dropLedger, gate, openLedger, TestThread } from './fixture.ts';

let database: Database;
let farSide: FarSide;
let thread: TestThread;
let key: string;
beforeAll(async () => {
  database = await openLedger();
});
afterAll(() => dropLedger(database));
beforeEach(async () => {
  farSide = await FarSide.start();
  thread = await TestThread.open(database);
  key = `k-${randomUUID()}`;
});
afterEach(() => farSide.stop());

const post = (body: string, how: typeof fetch = fetch): Promise<Response> =>
  how(`${farSide.url}/charges`, { method: 'POST', body });
const charge = <T>(fn: (call: OperationCall) => Promise<T>): Promise<T> =>
  thread.run(() => operation('charge', { kind: 'idempotent', key }, fn));
const keys = (): (string | undefined)[] => farSide.requests.map((each) => each.key);
const status = async (): Promise<string | undefined> =>
  (await getOperation(database, 'default', `key:${key}`))?.status;

describe('the fetch of an operation', () => {
  test('carries the operation id, numbered from the second request on, and leaves reads and own keys alone', async () => {
    await charge(async (call) => {
      await call.fetch(`${farSide.url}/charges?key=x`);
      await post('1', call.fetch);
      await post('2', call.fetch);
      await call.fetch(new Request(`${farSide.url}/charges`, { method: 'PUT', body: '3' }));
      await call.fetch(`${farSide.url}/charges`, {
        method: 'DELETE',
        headers: { 'idempotency-key': 'mine' },
      });
      await post('1', call.fetch);
    });
    expect(keys()).toEqual([`key:${key}`, `key:${key}:2`, `key:${key}:3`, 'mine', `key:${key}:5`]);
    expect(farSide.requests.map((each) => each.body)).toEqual(['1', '2', '3', '', '1']);
  });

  test('repeats the key of a request that failed when it is repeated', async () => {
    farSide.next = (response) => response.destroy();
    await charge(async (call) => {
      await expect(post('1', call.fetch)).rejects.toThrow('fetch failed');
      await post('1', call.fetch);
    });
    expect(keys()).toEqual([`key:${key}`, `key:${key}`]);
    expect(farSide.booked).toHaveLength(1);
  });

  test('is the same on the next attempt, so that a lost reply charges once', async () => {
    farSide.next = (response) => response.destroy();
    await expect(charge((call) => post('1', call.fetch))).rejects.toThrow('fetch failed');
    expect(await status()).toBe('unknown');
    await charge(async (call) => (await post('1', call.fetch)).json());
    expect(farSide.requests).toHaveLength(2);
    expect(farSide.booked).toHaveLength(1);
  });

  test('knows that a refusal after a request that may have had an effect proves nothing', async () => {
    const refuse = async (call: OperationCall): Promise<void> => {
      await post('1', call.fetch);
      farSide.next = (response) => response.writeHead(401).end();
      farSide.bookBeforeNext = false;
      const { status: code } = await post('2', call.fetch);
      throw Object.assign(new Error('unauthorized'), { status: code });
    };
    await expect(charge(refuse)).rejects.toThrow('unauthorized');
    expect(await status()).toBe('unknown');
  });

  test('proves it when the only request was refused', async () => {
    farSide.next = (response) => response.writeHead(401).end();
    farSide.bookBeforeNext = false;
    const refused = charge(async (call) => {
      const { status: code } = await post('1', call.fetch);
      throw Object.assign(new Error('unauthorized'), { status: code });
    });
    await expect(refused).rejects.toThrow('unauthorized');
    expect(await status()).toBe('failed');
  });

  test('ends its requests when the operation is told to stop', async () => {
    const held = gate();
    farSide.next = () => held.open();
    const cancel = new AbortController();
    const stopped = thread.run(
      () => operation('charge', { kind: 'idempotent', key }, (call) => post('1', call.fetch)),
      { signal: cancel.signal },
    );
    await held.opened;
    cancel.abort(new Error('cancelled'));
    await expect(stopped).rejects.toThrow('cancelled');
    expect(await status()).toBe('unknown');
  });
});

describe('installed as the process fetch', () => {
  test('covers tools that know nothing of it, once, and can be taken out again', async () => {
    const former = fetch;
    const restore = installOperationFetch();
    const again = installOperationFetch();
    try {
      expect(again()).toBeUndefined();
      expect(fetch).not.toBe(former);
      await charge(async () => {
        await post('1');
        await post('2', operationFetch);
      });
      await post('outside');
    } finally {
      restore();
    }
    expect(fetch).toBe(former);
    expect(keys()).toEqual([`key:${key}`, `key:${key}:2`, undefined]);
  });
});

test('code deep inside an operation can ask for it; outside, and after it, there is none', async () => {
  expect(currentOperation()).toBeUndefined();
  const late = gate<unknown>();
  const after = gate();
  const inside = await charge(async () => {
    void after.opened.then(() => late.open(currentOperation()));
    await Promise.resolve();
    return currentOperation()?.operationId;
  });
  after.open();
  expect(inside).toBe(`key:${key}`);
  expect(await late.opened).toBeUndefined();
});
