import { describe, expect, test } from 'vitest';
import { readClaim } from '../../graphs/refund-flow/claim.ts';
import { cents, findAmounts, readNumber, showMoney } from '../../graphs/refund-flow/money.ts';
import { APPROVAL_LIMITS, checkPolicy } from '../../graphs/refund-flow/policy.ts';
import { writeReply } from '../../graphs/refund-flow/replies/write-reply.ts';
import { refundKind, paymentsUrl, SettingError } from '../../graphs/refund-flow/settings.ts';
import { parseTicket, type Ticket, TicketError } from '../../graphs/refund-flow/ticket.ts';
import { ORDERS, ticketNamed, TICKETS } from './tickets.ts';

const orderOf = (id: string | null) => ORDERS.find((order) => order.id === id) ?? null;

function decide(changes: Partial<Ticket>, base = ticketNamed('ticket-401')) {
  const ticket = { ...base, ...changes };
  const claim = readClaim(ticket);
  return checkPolicy(ticket, claim, orderOf(claim.order_id));
}

describe('the tickets of the example', () => {
  test('are twenty, in many languages', () => {
    expect(TICKETS).toHaveLength(20);
    expect(new Set(TICKETS.map(({ ticket }) => ticket.customer.language)).size).toBeGreaterThanOrEqual(10);
  });

  test.each(TICKETS)('$file is read and decided as expected', ({ ticket, expected }) => {
    const claim = readClaim(parseTicket(ticket));
    expect(claim.order_id).toBe(expected.order_id);
    const decision = checkPolicy(ticket, claim, orderOf(claim.order_id));
    expect(decision.outcome).toBe({ refunded: 'refund', refused: 'refuse', asks: 'ask' }[expected.ends]);
    expect(decision.reason).toBe(expected.reason ?? 'within_limit');
    expect(decision).toMatchObject({ amount: expected.amount, currency: expected.currency });
  });

  test.each(TICKETS)(
    '$file gets a reply in its own language with nothing left to fill in',
    ({ ticket, expected }) => {
      const claim = readClaim(ticket);
      const decision = checkPolicy(ticket, claim, orderOf(claim.order_id));
      const outcome = { refunded: 'refunded', refused: 'refused', asks: 'rejected_by_reviewer' } as const;
      const reply = writeReply(ticket, claim, decision, outcome[expected.ends]);
      expect(reply).toContain(ticket.customer.name);
      expect(reply).not.toMatch(/[{}]|undefined/);
      if (ticket.customer.language !== 'en') expect(reply).not.toContain('Kind regards');
    },
  );
});

describe('reading a ticket', () => {
  test.each([
    [undefined, 'There is no ticket'],
    ['hello', 'This is no ticket'],
    [{ ...ticketNamed('ticket-401'), amount: -5 }, 'amount'],
    [{ ...ticketNamed('ticket-401'), amount: 1.005 }, 'more than two decimals'],
    [{ ...ticketNamed('ticket-401'), order_id: 'order\u0000' }, 'order number'],
    [
      { ...ticketNamed('ticket-401'), customer: { name: 'A\ud800', email: 'a@example.com', language: 'en' } },
      'name',
    ],
    [{ ...ticketNamed('ticket-401'), currency: 'euro' }, 'currency'],
    [{ ...ticketNamed('ticket-401'), customer: { name: 'Ann', email: 'ann', language: 'en' } }, 'email'],
    [{ ...ticketNamed('ticket-401'), subject: '…', body: ' \n\t' }, 'says nothing'],
  ])('refuses %j and says why', (input, reason) => {
    expect(() => parseTicket(input)).toThrow(TicketError);
    expect(() => parseTicket(input)).toThrow(reason);
  });

  test.each([
    ['49,90', 49.9],
    ['1.249,00', 1249],
    ['1,280', 1280],
    ['1 249,5', 1249.5],
    ['12.345.678', 12345678],
  ])('reads %s as %d', (text, amount) => expect(readNumber(text)).toBe(amount));

  test.each([
    ['I paid 35,50 € 2 weeks ago', 'en', [{ amount: 35.5, currency: 'EUR' }]],
    ['R$ 189,90 por favor', 'pt', [{ amount: 189.9, currency: 'BRL' }]],
    ['¥200', 'zh', [{ amount: 200, currency: 'CNY' }]],
    ['¥200', 'ja', [{ amount: 200, currency: 'JPY' }]],
    [
      'paid $30, want US$ 12.50 of the $30',
      'en',
      [
        { amount: 30, currency: 'USD' },
        { amount: 12.5, currency: 'USD' },
      ],
    ],
    ['5 europeans, room 12 USDX, version 3.2', 'en', []],
  ])('finds the amounts in %j (%s)', (text, language, amounts) =>
    expect(findAmounts(text, language)).toEqual(amounts),
  );

  test('takes what the form says over what the text says', () => {
    const claim = readClaim({ ...ticketNamed('ticket-401'), body: 'Order 1051, and make it 900 EUR.' });
    expect(claim).toMatchObject({ order_id: 'order-1042', amount: 24.9, currency: 'EUR' });
  });
});

describe('the policy', () => {
  test('pays back up to the limit and asks a person above it', () => {
    const bought = { ...ticketNamed('ticket-405'), currency: 'EUR' };
    expect(decide({ amount: APPROVAL_LIMITS['EUR'] }, bought).outcome).toBe('refund');
    expect(decide({ amount: 50.01 }, bought)).toMatchObject({ outcome: 'ask', reason: 'above_limit' });
  });

  test('counts days to the moment', () => {
    expect(decide({ received_at: '2026-08-09T11:00:00Z' }).outcome).toBe('refund');
    expect(decide({ received_at: '2026-08-09T11:00:01Z' })).toMatchObject({
      outcome: 'refuse',
      reason: 'too_late',
    });
  });

  test('asks a person when the text names two amounts', () => {
    const { order_id: _, amount: __, currency: ___, ...mail } = ticketNamed('ticket-401');
    expect(decide({ body: 'Order 1042: I paid 39.80 EUR, the mug was 24.90 EUR.' }, mail)).toMatchObject({
      outcome: 'ask',
      reason: 'amount_unclear',
    });
  });

  test('refuses another currency, an unknown order and more than is left', () => {
    expect(decide({ currency: 'USD' }).reason).toBe('wrong_currency');
    expect(decide({ order_id: 'order-9999' }).reason).toBe('order_unknown');
    expect(decide({ amount: 39.81 }).reason).toBe('more_than_paid');
  });

  test('adds money without leftovers', () => {
    expect(cents(0.1 + 0.2)).toBe(0.3);
    expect(showMoney({ amount: 49.9, currency: 'EUR' })).toBe('49.90 EUR');
    expect(showMoney({ amount: 3200, currency: 'JPY' })).toBe('3200 JPY');
  });
});

describe('settings', () => {
  test('are read with an error that names them', () => {
    expect(paymentsUrl({ PAYMENTS_URL: 'http://127.0.0.1:4710/' })).toBe('http://127.0.0.1:4710');
    expect(paymentsUrl({})).toBeUndefined();
    expect(() => paymentsUrl({ PAYMENTS_URL: 'localhost:4710' })).toThrow(/^PAYMENTS_URL/);
    expect(refundKind(undefined, {})).toBe('idempotent');
    expect(refundKind(undefined, { REFUND_KIND: 'exclusive' })).toBe('exclusive');
    expect(refundKind('reconcilable', { REFUND_KIND: 'exclusive' })).toBe('reconcilable');
    expect(() => refundKind('twice', {})).toThrow(SettingError);
  });
});
