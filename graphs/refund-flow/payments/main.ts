import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { z } from 'zod';
import { behaviour, createBehaviour } from './behaviour.ts';
import { order } from './contracts.ts';
import { openLedger } from './ledger.ts';
import { createPaymentServer } from './server.ts';

/** The service of the README: `node --import tsx graphs/refund-flow/payments/main.ts --port 4710`. */
const { values: args } = parseArgs({
  options: {
    port: { type: 'string', default: '4710' },
    'database-url': { type: 'string' },
    schema: { type: 'string', default: 'payments' },
    orders: { type: 'string' },
    'slow-ms': { type: 'string' },
    'slow-reply-ms': { type: 'string' },
    fail: { type: 'string' },
    'lose-reply': { type: 'boolean' },
    refuse: { type: 'string' },
    times: { type: 'string' },
    path: { type: 'string' },
    'honour-idempotency-key': { type: 'boolean' },
    'one-refund-per-order': { type: 'boolean' },
    'end-with-stdin': { type: 'boolean', default: false },
  },
});

const databaseUrl = args['database-url'] ?? process.env['DATABASE_URL'];
if (!databaseUrl)
  quit('Say where its tables are: --database-url postgres://…, or the variable DATABASE_URL.');

const told = behaviour.safeParse(behaviourOf(args));
if (!told.success) quit(z.prettifyError(told.error));
const acts = createBehaviour();
acts.tell(told.data);

const ledger = await openLedger(databaseUrl, args.schema).catch((error: unknown) =>
  quit(`Postgres: ${String(error)}`),
);
await ledger.addOrders(z.array(order).parse(JSON.parse(readFileSync(args.orders ?? ordersFile(), 'utf8'))));
const server = createPaymentServer(ledger, acts);
server.on('error', (error) => quit(`Port ${args.port}: ${error.message}`));
server.listen(Number(args.port), '127.0.0.1', () => {
  const address = server.address();
  if (address === null || typeof address === 'string') return quit('It has no address.');
  process.stdout.write(`${JSON.stringify({ listening: `http://127.0.0.1:${address.port}` })}\n`);
});

process.once('SIGTERM', end);
process.once('SIGINT', end);
// Whoever started it as a child holds the other end of stdin, which closes with that process however it dies.
if (args['end-with-stdin']) process.stdin.on('end', end).on('error', end).resume();

function end(): void {
  server.close(() => void ledger.close().finally(() => process.exit(0)));
  server.closeAllConnections();
}

function quit(message: string): never {
  process.stderr.write(`payments: ${message}\n`);
  process.exit(1);
}

function behaviourOf(flags: typeof args): Record<string, unknown> {
  const [status, ...reason] = flags.refuse?.split(':') ?? [];
  const wanted: Record<string, unknown> = {
    slow_ms: numberOf(flags['slow-ms']),
    slow_reply_ms: numberOf(flags['slow-reply-ms']),
    fail: numberOf(flags.fail),
    lose_reply: flags['lose-reply'],
    refuse: status === undefined ? undefined : { status: Number(status), reason: reason.join(':') },
    times: numberOf(flags.times),
    path: flags.path,
    honour_idempotency_key: flags['honour-idempotency-key'],
    one_refund_per_order: flags['one-refund-per-order'],
  };
  return Object.fromEntries(Object.entries(wanted).filter(([, value]) => value !== undefined));
}

function numberOf(text: string | undefined): number | undefined {
  return text === undefined ? undefined : Number(text);
}

/** The orders beside the graph; compiled code finds them in the source tree. */
function ordersFile(): string {
  const here = fileURLToPath(new URL('../orders.json', import.meta.url));
  return existsSync(here)
    ? here
    : fileURLToPath(new URL('../../../../graphs/refund-flow/orders.json', import.meta.url));
}
