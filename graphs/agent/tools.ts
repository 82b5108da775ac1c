import { appendFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { tool } from 'langchain';
import { z } from 'zod';

const ORDERS: Readonly<Record<string, string>> = {
  '1042': 'was delivered on 10 July 2026 and signed for by a neighbour',
  '1058': 'left the warehouse on 8 July 2026 and has not been scanned since',
  '1059': 'was delivered on 21 July 2026',
};

/** Units of each currency for one euro; fixed, so that the same question has the same answer. */
const FOR_ONE_EURO: Readonly<Record<string, number>> = {
  EUR: 1,
  USD: 1.1,
  GBP: 0.86,
  JPY: 170,
  CNY: 7.8,
  BRL: 6,
};

/** Only reads. */
export const lookUpOrder = tool(
  ({ order_id }) => `Order ${order_id} ${ORDERS[order_id] ?? 'is not known'}.`,
  {
    name: 'look_up_order',
    description: 'Tells where an order is.',
    schema: z.object({ order_id: z.string().describe('The digits of the order number, such as 1042') }),
    // As MCP's tools have them: whoever runs the agent can tell what may safely be done again.
    metadata: { annotations: { readOnlyHint: true } },
  },
);

/** Only computes. */
export const convertCurrency = tool(
  ({ amount, from, to }) => {
    const [source, target] = [FOR_ONE_EURO[from], FOR_ONE_EURO[to]];
    if (source === undefined || target === undefined)
      return `I know no rate from ${from} to ${to}; I know ${Object.keys(FOR_ONE_EURO).join(', ')}.`;
    return `${amount} ${from} is ${((amount / source) * target).toFixed(2)} ${to}.`;
  },
  {
    name: 'convert_currency',
    description: 'Converts an amount of money from one currency to another.',
    schema: z.object({ amount: z.number(), from: z.string().length(3), to: z.string().length(3) }),
    metadata: { annotations: { readOnlyHint: true } },
  },
);

/** Changes the world, and says nothing about being safe to repeat: each call is one more line in the outbox. */
export const sendMail = tool(
  async ({ to, text }) => {
    await appendFile(outboxFile(), `${JSON.stringify({ to, text })}\n`);
    return `Mail to ${to} sent.`;
  },
  {
    name: 'send_mail',
    description: 'Sends a mail.',
    schema: z.object({ to: z.string(), text: z.string() }),
  },
);

/** The file that stands for a mail server: AGENT_OUTBOX, or one among the temporary files. */
export function outboxFile(): string {
  return process.env['AGENT_OUTBOX'] || join(tmpdir(), 'perdure-agent-outbox.jsonl');
}
