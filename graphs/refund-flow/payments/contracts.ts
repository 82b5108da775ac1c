import { z } from 'zod';

/** An amount of money in whole units of its currency, with at most two decimals: 49.9 is 49 euros and 90 cents. */
export const amount = z
  .number()
  .positive()
  .max(9_999_999)
  .refine((value) => Math.abs(value * 100 - Math.round(value * 100)) < 1e-6, 'has more than two decimals');
export const currency = z.string().regex(/^[A-Z]{3}$/, "must be a currency's three letters, such as EUR");

/** What the shop knows of an order. */
export const order = z.object({
  id: z.string().min(1),
  customer_email: z.string(),
  items: z.array(z.object({ name: z.string(), category: z.string() })).min(1),
  paid: amount,
  currency,
  /** Null while the parcel is on its way. */
  delivered_at: z.iso.datetime().nullable(),
  /** What was paid back by earlier means; what these books add is counted on top. */
  refunded_before: z.number().min(0).default(0),
});
export type Order = z.infer<typeof order>;

/** An order as `GET /orders/:id` gives it: `refunded` is all that was paid back so far. */
export const orderView = order.omit({ refunded_before: true }).extend({ refunded: z.number() });
export type OrderView = z.infer<typeof orderView>;

export const refundRequest = z.object({
  order_id: z.string().min(1),
  amount,
  currency,
  reason: z.string().default(''),
});
export type RefundRequest = z.infer<typeof refundRequest>;

export const refund = refundRequest.extend({
  id: z.string(),
  idempotency_key: z.string().nullable(),
  created_at: z.string(),
});
export type Refund = z.infer<typeof refund>;

export const messageRequest = z.object({
  /** What the message is about; counts the messages of one ticket. */
  ticket_id: z.string().min(1),
  to: z.string().min(1),
  text: z.string().min(1),
});
export type MessageRequest = z.infer<typeof messageRequest>;

export const message = messageRequest.extend({
  id: z.string(),
  idempotency_key: z.string().nullable(),
  created_at: z.string(),
});
export type Message = z.infer<typeof message>;

/** All that was ever paid back and sent, oldest first. */
export const books = z.object({
  refunds: z.array(refund),
  messages: z.array(message),
  /** Per order that was refunded: how often, and how much in all. */
  orders: z.record(z.string(), z.object({ refunds: z.int(), total: z.number(), currency })),
  /** How many requests of each kind this process has had, such as `POST /refunds`. */
  requests: z.record(z.string(), z.int()),
});
export type Books = z.infer<typeof books>;
