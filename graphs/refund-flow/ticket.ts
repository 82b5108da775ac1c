import { z } from 'zod';
import { amount, currency } from './payments/contracts.ts';

/** The longest text of a ticket, in characters. */
const MAX_TEXT = 20_000;

/** A support ticket as it comes in, by mail or by the form on the web, which fills the last three fields. */
export const ticket = z.object({
  id: z.string().regex(/^[\w.-]{1,100}$/, "has letters, digits, '_', '.' and '-', at most 100"),
  received_at: z.iso.datetime(),
  customer: z.object({
    name: z.string().regex(/^[^\p{Cc}\p{Cs}]{1,200}$/u, 'has 1 to 200 characters and no control ones'),
    email: z.email(),
    /** A language tag such as `de` or `pt-BR`; the reply is written in it. */
    language: z
      .string()
      .regex(/^[A-Za-z]{2,3}(-[A-Za-z0-9]+)*$/, 'must be a language tag such as de or pt-BR'),
  }),
  subject: z.string().max(500),
  body: z.string().max(MAX_TEXT),
  order_id: z
    .string()
    .regex(/^[\w-]{1,64}$/, 'is an order number such as order-1042')
    .optional(),
  amount: amount.optional(),
  currency: currency.optional(),
});
export type Ticket = z.infer<typeof ticket>;

/** What a ticket asks for. A null amount means all that was paid. */
export const claim = z.object({
  order_id: z.string().nullable(),
  amount: z.number().nullable(),
  currency: z.string().nullable(),
  /** What a person should know: more than one order or amount is named, or the text gives orders to the system. */
  doubts: z.array(z.enum(['several_orders', 'several_amounts', 'suspicious_text'])),
});
export type Claim = z.infer<typeof claim>;

/** What came in is no ticket. The message says what to correct; asking again with the same changes nothing. */
export class TicketError extends Error {
  override name = 'TicketError';
  readonly code = 'TICKET_INVALID';
}

/** @throws TicketError */
export function parseTicket(input: unknown): Ticket {
  if (input === undefined)
    throw new TicketError(
      'There is no ticket. Give the graph { "ticket": { … } }, as in graphs/refund-flow/tickets.',
    );
  const parsed = ticket.safeParse(input);
  if (!parsed.success) throw new TicketError(`This is no ticket:\n${z.prettifyError(parsed.error)}`);
  if (!/[\p{L}\p{N}]/u.test(parsed.data.subject + parsed.data.body))
    throw new TicketError(`Ticket ${parsed.data.id} says nothing: there is no word in its subject or body.`);
  return parsed.data;
}
