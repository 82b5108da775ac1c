import { readdirSync, readFileSync } from 'node:fs';
import { z } from 'zod';
import { order, type OrderView } from '../../graphs/refund-flow/payments/contracts.ts';
import { ticket, type Ticket } from '../../graphs/refund-flow/ticket.ts';

const folder = new URL('../../graphs/refund-flow/', import.meta.url);
const read = (path: string): unknown => JSON.parse(readFileSync(new URL(path, folder), 'utf8'));

const expectation = z.strictObject({
  ends: z.enum(['refunded', 'refused', 'asks']),
  reason: z.string().optional(),
  order_id: z.string().nullable(),
  amount: z.number(),
  currency: z.string(),
});
export type Expectation = z.infer<typeof expectation>;

const expectations = z.record(z.string(), expectation).parse(read('expectations.json'));

/** The tickets of the example, and what is expected to become of each. */
export const TICKETS: { file: string; ticket: Ticket; expected: Expectation }[] = readdirSync(
  new URL('tickets/', folder),
).map((file) => {
  const input = z.strictObject({ ticket }).parse(read(`tickets/${file}`));
  const expected = expectations[input.ticket.id];
  if (expected === undefined) throw new Error(`expectations.json has nothing on ${input.ticket.id}`);
  return { file, ticket: input.ticket, expected };
});

export function ticketNamed(id: string): Ticket {
  const found = TICKETS.find((entry) => entry.ticket.id === id);
  if (found === undefined) throw new Error(`There is no ${id}`);
  return found.ticket;
}

/** The orders of the example, as the service shows them before any refund. */
export const ORDERS: OrderView[] = z
  .array(order)
  .parse(read('orders.json'))
  .map(({ refunded_before, ...known }) => ({ ...known, refunded: refunded_before }));
