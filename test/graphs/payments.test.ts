import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest';
import { type Payments, startPayments } from '../../graphs/refund-flow/payments/process.ts';

let payments: Payments;
const schema = `payments_${randomUUID().slice(0, 8)}`;

beforeAll(async () => {
  payments = await startPayments({ databaseUrl: inject('databaseUrl'), schema });
});
afterAll(() => payments.stop());
beforeEach(() => payments.behave({ honour_idempotency_key: false, one_refund_per_order: false }));

type Answer = { status: number; replayed: boolean; body: Record<string, unknown> };

async function post(path: string, body: unknown, key?: string): Promise<Answer> {
  const response = await fetch(`${payments.url}${path}`, {
    method: 'POST',
    body: typeof body === 'string' ? body : JSON.stringify(body),
    ...(key === undefined ? {} : { headers: { 'idempotency-key': key } }),
  });
  const answer = (await response.json()) as Record<string, unknown>;
  return {
    status: response.status,
    replayed: response.headers.get('idempotent-replay') === 'true',
    body: answer,
  };
}

/** An order that no other test touches. */
async function freshOrder(): Promise<string> {
  const id = `order-${randomUUID().slice(0, 8)}`;
  const items = [{ name: 'Mug', category: 'kitchen' }];
  await payments.addOrder({
    id,
    customer_email: 'ann@example.com',
    items,
    paid: 20,
    currency: 'EUR',
    delivered_at: null,
    refunded_before: 0,
  });
  return id;
}

const refundOf = (order_id: string, amount = 10.1) => ({
  order_id,
  amount,
  currency: 'EUR',
  reason: 'chipped',
});

async function refundsOf(order_id: string): Promise<number> {
  return (await payments.books()).orders[order_id]?.refunds ?? 0;
}

describe('the payment service', () => {
  test('knows the orders of the fixture and counts what was paid back', async () => {
    const order = await fetch(`${payments.url}/orders/order-1056`).then((response) => response.json());
    expect(order).toMatchObject({ id: 'order-1056', paid: 28000, currency: 'KRW', refunded: 28000 });
    const id = await freshOrder();
    expect((await post('/refunds', refundOf(id))).body).toMatchObject({
      id: `re_${id}_1`,
      amount: 10.1,
      currency: 'EUR',
    });
    expect(await fetch(`${payments.url}/orders/${id}`).then((response) => response.json())).toMatchObject({
      refunded: 10.1,
    });
    expect((await fetch(`${payments.url}/orders/order-1`)).status).toBe(404);
  });

  test('pays twice for the same key unless told to honour it', async () => {
    const id = await freshOrder();
    const first = await post('/refunds', refundOf(id), 'key-twice');
    const second = await post('/refunds', refundOf(id), 'key-twice');
    expect(second.body['id']).not.toBe(first.body['id']);
    expect((await payments.books()).orders[id]).toEqual({ refunds: 2, total: 20.2, currency: 'EUR' });
  });

  test('told to honour keys, gives the first answer again and refuses another body', async () => {
    await payments.behave({ honour_idempotency_key: true });
    const id = await freshOrder();
    const first = await post('/refunds', refundOf(id), `key-${id}`);
    const again = await post('/refunds', refundOf(id), `key-${id}`);
    expect(first).toMatchObject({ status: 201, replayed: false });
    expect(again).toEqual({ ...first, replayed: true });
    const other = await post('/refunds', refundOf(id, 11), `key-${id}`);
    expect(other).toMatchObject({ status: 422, body: { error: 'idempotency_key_reused' } });
    expect(await refundsOf(id)).toBe(1);
    const found = await fetch(`${payments.url}/refunds?idempotency_key=key-${id}`).then((response) =>
      response.json(),
    );
    expect(found).toEqual({ refunds: [first.body] });
  });

  test('with an honoured key, requests at the same moment pay once', async () => {
    await payments.behave({ honour_idempotency_key: true });
    const id = await freshOrder();
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => post('/refunds', refundOf(id), `key-${id}`)),
    );
    expect(answers.filter((answer) => !answer.replayed)).toHaveLength(1);
    expect(await refundsOf(id)).toBe(1);
  });

  test('told to fail, commits nothing, as many times as told', async () => {
    const id = await freshOrder();
    await payments.behave({ fail: 503, times: 2 });
    expect((await post('/refunds', refundOf(id))).status).toBe(503);
    expect((await post('/refunds', refundOf(id))).status).toBe(503);
    expect(await refundsOf(id)).toBe(0);
    expect((await post('/refunds', refundOf(id))).status).toBe(201);
    expect(await refundsOf(id)).toBe(1);
  });

  test('told to lose its reply, commits and cuts the connection', async () => {
    const id = await freshOrder();
    await payments.behave({ lose_reply: true, path: 'POST /refunds', times: 1 });
    await expect(post('/refunds', refundOf(id))).rejects.toThrow('fetch failed');
    expect(await refundsOf(id)).toBe(1);
  });

  test('told to refuse, says why and commits nothing', async () => {
    const id = await freshOrder();
    await payments.behave({ refuse: { status: 402, reason: 'the account is closed' } });
    const answer = await post('/refunds', refundOf(id));
    expect(answer).toMatchObject({
      status: 402,
      body: { error: 'refused', reason: 'the account is closed' },
    });
    expect(await refundsOf(id)).toBe(0);
  });

  test('told to be slow, waits before it does anything or before it replies', async () => {
    const id = await freshOrder();
    await payments.behave({ slow_ms: 300, times: 1 });
    const begun = performance.now();
    await post('/refunds', refundOf(id));
    expect(performance.now() - begun).toBeGreaterThan(290);

    await payments.behave({ slow_reply_ms: 60_000, times: 1 });
    const cut = new AbortController();
    const asked = fetch(`${payments.url}/refunds`, {
      method: 'POST',
      body: JSON.stringify(refundOf(id)),
      signal: cut.signal,
    });
    await expect.poll(() => refundsOf(id)).toBe(2);
    cut.abort();
    await expect(asked).rejects.toThrow();
  });

  test('misbehaves only where it is told to, and stops when told', async () => {
    const id = await freshOrder();
    await payments.behave({ fail: true, path: '/messages' });
    expect((await post('/refunds', refundOf(id))).status).toBe(201);
    const mail = { ticket_id: id, to: 'ann@example.com', text: 'Hello' };
    expect((await post('/messages', mail)).status).toBe(500);
    await payments.behave({});
    expect((await post('/messages', mail)).status).toBe(201);
    const { messages } = await payments.books();
    expect(messages.filter((message) => message.ticket_id === id)).toMatchObject([mail]);
  });

  test('told to, turns a second refund of one order down', async () => {
    await payments.behave({ one_refund_per_order: true });
    const id = await freshOrder();
    expect((await post('/refunds', refundOf(id), 'a')).status).toBe(201);
    expect(await post('/refunds', refundOf(id), 'b')).toMatchObject({
      status: 422,
      body: { error: 'already_refunded' },
    });
  });

  test.each([
    ['no JSON', '{'],
    ['no amount', { order_id: 'order-1042', currency: 'EUR' }],
    ['a negative amount', refundOf('order-1042', -1)],
    ['three decimals', refundOf('order-1042', 1.005)],
    ['a NUL', { ...refundOf('order-1042'), reason: 'a\u0000b' }],
  ])('refuses %s and stays up', async (_, body) => {
    expect((await post('/refunds', body)).status).toBe(400);
    expect(await refundsOf('order-1042')).toBe(0);
  });

  test.each(['%00', '%E0%A4%A', 'a'.repeat(5_000)])('an order id such as %s does no harm', async (id) => {
    expect([400, 404]).toContain((await fetch(`${payments.url}/orders/${id}`)).status);
  });

  test('keeps the six characters \\u0000 as they are', async () => {
    const id = await freshOrder();
    expect((await post('/refunds', { ...refundOf(id), reason: 'a\\u0000b' })).body['reason']).toBe(
      'a\\u0000b',
    );
  });

  test('keeps its books over a restart, also when two start at once', async () => {
    const id = await freshOrder();
    await post('/refunds', refundOf(id));
    const options = { databaseUrl: inject('databaseUrl'), schema };
    const others = await Promise.all([startPayments(options), startPayments(options)]);
    for (const other of others) expect((await other.books()).orders[id]?.refunds).toBe(1);
    await Promise.all(others.map((other) => other.stop()));
  });

  test('is startable with a behaviour, and says why it did not start', async () => {
    const databaseUrl = inject('databaseUrl');
    const other = await startPayments({
      databaseUrl,
      schema,
      behaviour: {
        refuse: { status: 422, reason: 'closed: for good' },
        honour_idempotency_key: true,
        fail: true,
      },
    });
    const told: unknown = await fetch(`${other.url}/behaviour`).then((response) => response.json());
    expect(told).toEqual({
      honour_idempotency_key: true,
      one_refund_per_order: false,
      faults: { '*': { fail: 500, refuse: { status: 422, reason: 'closed: for good' } } },
    });
    const taken = Number(new URL(other.url).port);
    await expect(startPayments({ databaseUrl, schema, port: taken })).rejects.toThrow('EADDRINUSE');
    await other.stop();
    await other.stop();
    await expect(startPayments({ databaseUrl: 'postgres://nobody@127.0.0.1:1/none' })).rejects.toThrow(
      'Postgres',
    );
  });
});
