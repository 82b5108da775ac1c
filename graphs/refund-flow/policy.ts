import { z } from 'zod';
import type { OrderView } from './payments/contracts.ts';
import { cents, showMoney } from './money.ts';
import type { Claim, Ticket } from './ticket.ts';

/** Days after delivery within which a refund can be asked for. */
export const DAYS_TO_ASK = 30;

/**
 * The most that is paid back without a person's yes: EUR 50, and about as much in the other currencies. The numbers
 * are fixed, so that the same ticket is decided the same way on any day. A currency that is not here always asks.
 */
export const APPROVAL_LIMITS: Readonly<Record<string, number>> = {
  EUR: 50,
  USD: 55,
  GBP: 43,
  BRL: 300,
  CNY: 390,
  JPY: 8_500,
  KRW: 75_000,
  PLN: 210,
};

/** What is never taken back. */
export const EXCLUDED_CATEGORIES: readonly string[] = [
  'gift_card',
  'download',
  'made_to_order',
  'perishable',
];

const DAY = 86_400_000;

export const decision = z.object({
  outcome: z.enum(['refuse', 'refund', 'ask']),
  /** Why, for programs. */
  reason: z.enum([
    'order_missing',
    'order_unclear',
    'order_unknown',
    'order_not_theirs',
    'already_refunded',
    'excluded',
    'too_late',
    'wrong_currency',
    'more_than_paid',
    'suspicious_text',
    'amount_unclear',
    'not_delivered',
    'above_limit',
    'within_limit',
    'payment_refused',
  ]),
  /** Why, for people in support. */
  explanation: z.string(),
  amount: z.number().nullable(),
  currency: z.string().nullable(),
});
export type Decision = z.infer<typeof decision>;

/** Decides what becomes of a claim. Time is the ticket's own: a ticket is not late because it was read late. */
export function checkPolicy(ticket: Ticket, claim: Claim, order: OrderView | null): Decision {
  const asked = { amount: claim.amount, currency: claim.currency };
  const refuse = (reason: Decision['reason'], explanation: string): Decision => ({
    outcome: 'refuse',
    reason,
    explanation,
    ...asked,
  });

  if (claim.order_id === null)
    return claim.doubts.includes('several_orders')
      ? refuse('order_unclear', 'The ticket names more than one order and does not say which is meant.')
      : refuse('order_missing', 'The ticket names no order.');
  if (order === null) return refuse('order_unknown', `There is no order ${claim.order_id}.`);
  if (order.customer_email.toLowerCase() !== ticket.customer.email.toLowerCase())
    return refuse(
      'order_not_theirs',
      `Order ${order.id} belongs to another customer than ${ticket.customer.email}.`,
    );

  const left = cents(order.paid - order.refunded);
  const money = { amount: claim.amount ?? left, currency: claim.currency ?? order.currency };
  if (left <= 0) return refuse('already_refunded', `Order ${order.id} was paid back already.`);
  const excluded = order.items.find((item) => EXCLUDED_CATEGORIES.includes(item.category));
  if (excluded)
    return refuse('excluded', `${excluded.name} is a ${excluded.category}, which is not taken back.`);
  const days =
    order.delivered_at === null ? 0 : (Date.parse(ticket.received_at) - Date.parse(order.delivered_at)) / DAY;
  if (days > DAYS_TO_ASK)
    return refuse(
      'too_late',
      `It was asked ${Math.floor(days)} days after delivery; ${DAYS_TO_ASK} are allowed.`,
    );
  if (money.currency !== order.currency)
    return refuse('wrong_currency', `It was paid in ${order.currency}, but ${money.currency} is asked for.`);
  if (money.amount > left)
    return refuse(
      'more_than_paid',
      `${showMoney(money)} is asked for, but only ${left} of it can be paid back.`,
    );

  const ask = (reason: Decision['reason'], explanation: string): Decision => ({
    outcome: 'ask',
    reason,
    explanation,
    ...money,
  });
  const limit = APPROVAL_LIMITS[money.currency] ?? 0;
  if (claim.doubts.includes('suspicious_text'))
    return ask(
      'suspicious_text',
      'The text of the ticket gives orders to the system. They were not followed.',
    );
  if (claim.doubts.includes('several_amounts'))
    return ask('amount_unclear', 'The ticket names more than one amount.');
  if (order.delivered_at === null)
    return ask('not_delivered', `Order ${order.id} has not been delivered yet.`);
  if (money.amount > limit)
    return ask('above_limit', `${showMoney(money)} is above the limit of ${limit} ${money.currency}.`);
  return {
    outcome: 'refund',
    reason: 'within_limit',
    explanation: `All rules are met, and ${showMoney(money)} is within the limit of ${limit} ${money.currency}.`,
    ...money,
  };
}
