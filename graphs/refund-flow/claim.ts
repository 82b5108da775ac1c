import { findAmounts } from './money.ts';
import type { Claim, Ticket } from './ticket.ts';

/** Words for "order" that come before its number, in the languages of our customers. */
const ORDER_WORDS = [
  'order(?: number| no\\.?)?',
  'bestellung|bestellnummer|bestelling|auftrag',
  'pedidos?|encomenda',
  'commande',
  'ordine',
  'zamówieni[ae]',
  '订单号?|訂單(?:編號)?|注文(?:番号)?|주문(?: ?번호)?',
  'الطلب|طلب',
].join('|');

/** `order-1042`, `#1042`, or the number soon after a word for it. Group 1 is the number. */
const ORDER_NUMBER = new RegExp(
  `(?:\\border-|#|(?:${ORDER_WORDS})[^\\d\\n]{0,12}?)([1-9]\\d{3,7})(?!\\d)`,
  'giu',
);

/** Text that talks to a machine, not to support. It decides nothing, but a person has to look. */
const TO_THE_MACHINE = [
  /\b(system|assistant|developer)\s*:/i,
  /\b(ignore|disregard)\b.{0,30}\b(policy|policies|instructions?|rules?|above)\b/i,
  /\bapprove\b.{0,20}\brefunds?\b/i,
  /<\/?\s*(system|memory|tool|instructions?)\s*>/i,
];

/** What a ticket asks for, by rules alone: what its form says, else what its text says. */
export function readClaim(ticket: Ticket): Claim {
  const text = plain(`${ticket.subject}\n${ticket.body}`);
  const orders = new Set([...text.matchAll(ORDER_NUMBER)].map((match) => `order-${match[1]}`));
  const amounts = findAmounts(text.replaceAll(ORDER_NUMBER, ' '), ticket.customer.language);
  const named = ticket.order_id ?? (orders.size === 1 ? [...orders][0] : undefined);
  const asked =
    ticket.amount === undefined ? amounts[0] : { amount: ticket.amount, currency: ticket.currency ?? null };
  const doubts: Claim['doubts'] = [];
  if (named === undefined && orders.size > 1) doubts.push('several_orders');
  if (ticket.amount === undefined && amounts.length > 1) doubts.push('several_amounts');
  if (TO_THE_MACHINE.some((pattern) => pattern.test(text))) doubts.push('suspicious_text');
  return {
    order_id: named ?? null,
    amount: asked?.amount ?? null,
    currency: asked?.currency ?? null,
    doubts,
  };
}

/** One form for what looks alike: full-width and Arabic digits, odd spaces; and no digits out of `\u0000`. */
function plain(text: string): string {
  return text
    .normalize('NFKC')
    .replaceAll(/\\u[0-9a-f]{4}/gi, ' ')
    .replaceAll(/[\u0660-\u0669]/g, (digit) => String(digit.charCodeAt(0) - 0x0660))
    .replaceAll(/[\u06f0-\u06f9]/g, (digit) => String(digit.charCodeAt(0) - 0x06f0))
    .replaceAll('٫', '.')
    .replaceAll('٬', ',');
}
