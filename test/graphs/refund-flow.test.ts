import { randomUUID } from 'node:crypto';
import { Command, isInterrupted, INTERRUPT, MemorySaver } from '@langchain/langgraph';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test, vi } from 'vitest';
import { graph, refundFlow } from '../../graphs/refund-flow/graph.ts';
import { type Payments, startPayments } from '../../graphs/refund-flow/payments/process.ts';
import type { RefundState, RefundUpdate } from '../../graphs/refund-flow/state.ts';
import type { Ticket } from '../../graphs/refund-flow/ticket.ts';
import type { Database } from '../../src/postgres/database.ts';
import { openLedgerDatabase, openThread } from './as-part-of-a-run.ts';
import { ticketNamed, TICKETS } from './tickets.ts';

let payments: Payments;
let database: Database;

beforeAll(async () => {
  const databaseUrl = inject('databaseUrl');
  database = await openLedgerDatabase(databaseUrl);
  payments = await startPayments({ databaseUrl, schema: `payments_${randomUUID().slice(0, 8)}` });
});
afterAll(async () => {
  await payments.stop();
  await database.close();
});
beforeEach(async () => {
  vi.stubEnv('PAYMENTS_URL', payments.url);
  await payments.behave({ honour_idempotency_key: false, one_refund_per_order: false });
});
afterEach(() => vi.unstubAllEnvs());

type Conversation = {
  send: (input: Parameters<typeof graph.invoke>[0]) => Promise<RefundState>;
  /** What the thread waits for, if it does. */
  asked: (state: RefundState) => { id: string; value: Record<string, unknown> }[];
};

/** One thread of the graph under plain LangGraph, with a ledger for its operations. */
async function converse(configurable: Record<string, unknown> = {}): Promise<Conversation> {
  graph.checkpointer = new MemorySaver();
  const asRun = await openThread(database, 'refund-flow');
  const config = { configurable: { thread_id: randomUUID(), ...configurable } };
  return {
    send: (input) => asRun(() => graph.invoke(input, config)) as Promise<RefundState>,
    asked: (state) =>
      isInterrupted<Record<string, unknown>>(state)
        ? state[INTERRUPT].map(({ id, value }) => ({ id: id ?? '', value: value ?? {} }))
        : [],
  };
}

/** A ticket about an order that no other test touches; above the limit when `amount` is. */
async function freshTicket(amount = 20): Promise<Ticket> {
  const order_id = `order-${randomUUID().slice(0, 8)}`;
  const base = ticketNamed('ticket-401');
  await payments.addOrder({
    id: order_id,
    customer_email: base.customer.email,
    items: [{ name: 'Mug', category: 'kitchen' }],
    paid: 500,
    currency: 'EUR',
    delivered_at: '2026-07-10T11:00:00.000Z',
    refunded_before: 0,
  });
  return { ...base, id: `ticket-${order_id}`, order_id, amount };
}

async function booksOf(ticket: Ticket): Promise<{ refunds: number; messages: number }> {
  const { orders, messages } = await payments.books();
  return {
    refunds: orders[ticket.order_id ?? '']?.refunds ?? 0,
    messages: messages.filter((message) => message.ticket_id === ticket.id).length,
  };
}

const answer = (value: unknown) => new Command<unknown, RefundUpdate, NodeName>({ resume: value });
type NodeName = keyof typeof graph.nodes;

describe('refund-flow', () => {
  test('is version 17 and has its nodes in order', () => {
    expect(refundFlow).toMatchObject({ name: 'refund-flow', version: '17', graph });
    expect(Object.keys(graph.nodes)).toEqual([
      '__start__',
      'read_ticket',
      'look_up_order',
      'check_policy',
      'wait_for_human_approval',
      'issue_refund',
      'write_to_customer',
    ]);
  });

  test.each(TICKETS)(
    '$file ends as expected, with one message and at most one refund',
    async ({ ticket, expected }) => {
      const { send, asked } = await converse();
      let state = await send({ ticket });
      if (expected.ends === 'asks') {
        expect(asked(state)).toMatchObject([
          {
            value: {
              type: 'approve_refund',
              ticket_id: ticket.id,
              order_id: expected.order_id,
              amount: expected.amount,
              currency: expected.currency,
              customer: { name: ticket.customer.name, email: ticket.customer.email },
              policy: { rule: expected.reason },
            },
          },
        ]);
        expect((await payments.books()).orders).not.toHaveProperty([expected.order_id ?? '']);
        state = await send(answer({ approved: true, note: 'fine' }));
      }
      expect(asked(state)).toEqual([]);
      const paid = expected.ends !== 'refused';
      expect(state.status).toBe(paid ? 'refunded' : 'refused');
      const { orders, messages } = await payments.books();
      const sums = { refunds: 1, total: expected.amount, currency: expected.currency };
      expect(orders[expected.order_id ?? '']).toEqual(paid ? sums : undefined);
      if (paid)
        expect(state.refund).toEqual({
          id: `re_${expected.order_id}_1`,
          amount: expected.amount,
          currency: expected.currency,
        });
      expect(messages.filter((message) => message.ticket_id === ticket.id)).toMatchObject([
        { to: ticket.customer.email, text: state.reply },
      ]);
      expect(state.log.map((entry) => entry.node)).toEqual([
        'read_ticket',
        'look_up_order',
        'check_policy',
        ...(expected.ends === 'asks' ? ['wait_for_human_approval'] : []),
        ...(paid ? ['issue_refund'] : []),
        'write_to_customer',
      ]);
    },
  );

  test('the same ticket again, on another thread, is not paid again', async () => {
    const ticket = await freshTicket(20);
    await (await converse()).send({ ticket });
    const { send } = await converse();
    await send({ ticket });
    expect((await booksOf(ticket)).refunds).toBe(1);
  });

  test.each([[false], [{ approved: false, reason: 'worn for a month' }]])(
    'after the answer %j nothing is paid',
    async (no) => {
      const ticket = await freshTicket(120);
      const { send } = await converse();
      await send({ ticket });
      const state = await send(answer(no));
      expect(state.status).toBe('rejected_by_reviewer');
      expect(state.reply).toContain('cannot grant a refund');
      expect(await booksOf(ticket)).toEqual({ refunds: 0, messages: 1 });
    },
  );

  test.each([['yes'], [{ approved: 'yes' }], [{ approved: false }], [{ approved: true, amount: 1 }], [0]])(
    'the answer %j decides nothing and is asked again',
    async (wrong) => {
      const ticket = await freshTicket(120);
      const { send, asked } = await converse();
      const [first] = asked(await send({ ticket }));
      const [second] = asked(await send(answer(wrong)));
      expect(second?.id).not.toBe(first?.id);
      expect(second?.value).toEqual({ ...first?.value, problem: expect.stringContaining('not understood') });
      expect(await booksOf(ticket)).toEqual({ refunds: 0, messages: 0 });
      // By its id, as perdure answers.
      const state = await send(answer({ [second?.id ?? '']: true }));
      expect(state.status).toBe('refunded');
      expect(await booksOf(ticket)).toEqual({ refunds: 1, messages: 1 });
    },
  );

  test('refuses an input that is no ticket, and does nothing', async () => {
    const { send } = await converse();
    await expect(send({})).rejects.toThrow('There is no ticket');
    await expect(send({ ticket: { ...ticketNamed('ticket-401'), subject: 7 } } as never)).rejects.toThrow(
      'ticket',
    );
  });
});

describe('the refund, when the payment service misbehaves', () => {
  test.each(['pure', 'idempotent', 'reconcilable', 'exclusive'])(
    'of kind %s: is paid once when all goes well',
    async (kind) => {
      const ticket = await freshTicket();
      const state = await (await converse({ refund_kind: kind })).send({ ticket });
      expect(state).toMatchObject({ status: 'refunded', refund_kind: kind });
      expect(await booksOf(ticket)).toEqual({ refunds: 1, messages: 1 });
    },
  );

  test('of kind idempotent: a lost reply is asked for again under the same key', async () => {
    await payments.behave({
      honour_idempotency_key: true,
      lose_reply: true,
      path: 'POST /refunds',
      times: 1,
    });
    const ticket = await freshTicket();
    expect(await (await converse()).send({ ticket })).toMatchObject({ status: 'refunded' });
    expect(await booksOf(ticket)).toEqual({ refunds: 1, messages: 1 });
  });

  test('of kind reconcilable: a lost reply is looked up, though keys are not honoured', async () => {
    await payments.behave({ lose_reply: true, path: 'POST /refunds', times: 1 });
    const ticket = await freshTicket();
    const state = await (await converse({ refund_kind: 'reconcilable' })).send({ ticket });
    expect(state).toMatchObject({ status: 'refunded', refund: { id: `re_${ticket.order_id}_1` } });
    expect(await booksOf(ticket)).toEqual({ refunds: 1, messages: 1 });
  });

  test('of kind exclusive: after a lost reply a person is asked, and nothing is paid again', async () => {
    await payments.behave({ lose_reply: true, path: 'POST /refunds', times: 1 });
    const ticket = await freshTicket();
    const { send, asked } = await converse({ refund_kind: 'exclusive' });
    expect(asked(await send({ ticket }))).toHaveLength(1);
    expect(await booksOf(ticket)).toEqual({ refunds: 1, messages: 0 });
  });

  test("of kind reconcilable: a far side that can't be asked just now is asked again", async () => {
    await payments.behave({ lose_reply: true, path: 'POST /refunds', times: 1 });
    await payments.behave({ fail: true, path: 'GET /refunds', times: 1 });
    const ticket = await freshTicket();
    const state = await (await converse({ refund_kind: 'reconcilable' })).send({ ticket });
    expect(state).toMatchObject({ status: 'refunded' });
    expect(await booksOf(ticket)).toEqual({ refunds: 1, messages: 1 });
  });

  test('a service that is down for a moment costs no more than that', async () => {
    await payments.behave({ fail: 503, path: 'POST /refunds', times: 2 });
    const ticket = await freshTicket();
    expect(await (await converse()).send({ ticket })).toMatchObject({ status: 'refunded' });
    expect(await booksOf(ticket)).toEqual({ refunds: 1, messages: 1 });
  });

  test('a refusal is an answer: the customer is told, and nothing was paid', async () => {
    await payments.behave({
      refuse: { status: 402, reason: 'the account is closed' },
      path: 'POST /refunds',
    });
    const ticket = await freshTicket();
    const state = await (await converse()).send({ ticket });
    expect(state).toMatchObject({ status: 'refused', decision: { reason: 'payment_refused' } });
    expect(state.reply).toContain('could not be carried out');
    expect(await booksOf(ticket)).toEqual({ refunds: 0, messages: 1 });
  });

  test('a service that is not there is named, with the variable', async () => {
    vi.stubEnv('PAYMENTS_URL', 'http://127.0.0.1:9');
    const { send } = await converse();
    await expect(send({ ticket: ticketNamed('ticket-401') })).rejects.toThrow(
      /127\.0\.0\.1:9 \(PAYMENTS_URL\).*running/,
    );
  });
});
