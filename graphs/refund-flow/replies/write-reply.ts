import { showMoney } from '../money.ts';
import { DAYS_TO_ASK, type Decision } from '../policy.ts';
import type { Claim, Ticket } from '../ticket.ts';
import { ar } from './ar.ts';
import { de } from './de.ts';
import { en } from './en.ts';
import { es } from './es.ts';
import { fr } from './fr.ts';
import { it } from './it.ts';
import { ja } from './ja.ts';
import { ko } from './ko.ts';
import { nl } from './nl.ts';
import { pl } from './pl.ts';
import { pt } from './pt.ts';
import type { ReplyTexts } from './texts.ts';
import { zh } from './zh.ts';

const LANGUAGES: Readonly<Record<string, ReplyTexts>> = { ar, de, en, es, fr, it, ja, ko, nl, pl, pt, zh };

export type Outcome = 'refunded' | 'refused' | 'rejected_by_reviewer';

/** The text to the customer in the ticket's language, or in English where we have no texts for it. */
export function writeReply(ticket: Ticket, claim: Claim, decision: Decision, outcome: Outcome): string {
  const texts = LANGUAGES[ticket.customer.language.toLowerCase().split('-')[0] ?? ''] ?? en;
  const values: Record<string, string> = {
    name: ticket.customer.name,
    order: claim.order_id ?? '',
    amount: showMoney({ amount: decision.amount ?? 0, currency: decision.currency ?? '' }),
    days: String(DAYS_TO_ASK),
  };
  return [texts.greeting, texts[keyOf(decision, outcome)], texts.closing]
    .map((text) => text.replaceAll(/\{(\w+)\}/g, (_, name: string) => values[name] ?? ''))
    .join('\n\n');
}

function keyOf(decision: Decision, outcome: Outcome): keyof ReplyTexts {
  if (outcome === 'refunded') return 'refunded';
  if (outcome === 'rejected_by_reviewer') return 'rejected';
  switch (decision.reason) {
    case 'already_refunded':
    case 'excluded':
    case 'too_late':
    case 'wrong_currency':
    case 'more_than_paid':
    case 'payment_refused':
      return decision.reason;
    case 'order_missing':
    case 'order_unclear':
    case 'order_unknown':
    case 'order_not_theirs':
      return 'order_not_found';
    default:
      throw new Error(`No reply is known for a refusal because of '${decision.reason}'.`);
  }
}
