export type PlannedCall = { name: string; args: Record<string, string | number> };

const ORDER = /\border\s*(?:number|no\.?)?\s*#?(\d{3,8})/gi;
const CONVERT = /\bconvert\s+(\d+(?:\.\d+)?)\s*([A-Z]{3})\s+(?:to|into|in)\s+([A-Z]{3})\b/gi;
const MAIL =
  /\b(?<then>then\s+)?(?:send (?:a |an )?)?e?-?mail (?:to )?(?<to>[^\s:,;]+@[^\s:,;]+?)[:,]?\s+(?<text>[^\n]+)/gi;

/**
 * The tool calls that a message asks for, in stages: those of one stage go out together, and `then mail …` waits
 * for what comes before it. Tools that are not bound are left out.
 */
export function planCalls(message: string, tools: readonly string[]): PlannedCall[][] {
  const first: PlannedCall[] = [];
  const later: PlannedCall[] = [];
  // What a mail is to say must not be taken for a wish of its own.
  const wishes = message.replaceAll(MAIL, ' ');
  const orders = new Set([...wishes.matchAll(ORDER)].map((match) => match[1] ?? ''));
  for (const order_id of orders) first.push({ name: 'look_up_order', args: { order_id } });
  for (const [, amount, from = '', to = ''] of wishes.matchAll(CONVERT))
    first.push({
      name: 'convert_currency',
      args: { amount: Number(amount), from: from.toUpperCase(), to: to.toUpperCase() },
    });
  for (const { groups } of message.matchAll(MAIL)) {
    const mail = {
      name: 'send_mail',
      args: { to: groups?.['to'] ?? '', text: (groups?.['text'] ?? '').trim() },
    };
    (groups?.['then'] === undefined ? first : later).push(mail);
  }
  return [first, later]
    .map((calls) => calls.filter((call) => tools.includes(call.name)))
    .filter((calls) => calls.length > 0);
}
