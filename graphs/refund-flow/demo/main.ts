// npm run demo: a support ticket is processed, its worker is killed at the worst moments, a person approves while
// nothing runs, and the customer is paid once. Ends with status 1 when the books say otherwise.
import { existsSync, mkdtempSync, readFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import pc from 'picocolors';
import { readConfig } from '../../../src/config/config.ts';
import type { PerdureClient } from '../../../src/client/client.ts';
import { connect } from '../../../src/client/connect.ts';
import { down, serverStatus, up } from '../../../src/dev/index.ts';
import { migrate } from '../../../src/postgres/migrate.ts';
import { startPayments, type Payments } from '../payments/process.ts';
import { startDemoWorker, type DemoWorker } from './demo-worker.ts';
import { Narrator } from './narrator.ts';

const SCHEMA = 'demo';
const ORDER = 'order-1046';
const TICKET = '../tickets/405-es-wrong-size-boots.json';

const repository = fileURLToPath(new URL('../../..', import.meta.url));
const config = readConfig({ ...process.env, PERDURE_SCHEMA: SCHEMA }, repository);
const story = new Narrator();
const cleanUps: (() => Promise<unknown>)[] = [];

async function main(): Promise<void> {
  story.chapter('A Postgres and a Temporal');
  const servers = await startServers();
  const client = await connect({
    databaseUrl: servers.databaseUrl,
    schema: SCHEMA,
    temporal: { ...config.temporal, address: servers.temporalAddress },
  });
  cleanUps.push(() => client.close());
  await client.database.query(`DROP SCHEMA IF EXISTS "${SCHEMA}" CASCADE`);
  await client.database.query('DROP SCHEMA IF EXISTS "demo_payments" CASCADE');
  await migrate(client.database);
  story.event(`Postgres and Temporal are there; everything of this demo is in the schema "${SCHEMA}"`);

  story.chapter('A payment service with books of its own');
  const payments = await startPayments({
    databaseUrl: servers.databaseUrl,
    schema: 'demo_payments',
    behaviour: { honour_idempotency_key: true },
  });
  cleanUps.push(() => payments.stop());
  story.event(`it runs as process ${payments.pid} on ${payments.url}`);
  story.books(await payments.books(), ORDER);

  const once = mkdtempSync(join(tmpdir(), 'perdure-demo-'));
  cleanUps.push(() => rm(once, { recursive: true, force: true }));
  const worker = (fault?: string) =>
    startDemoWorker({
      DATABASE_URL: servers.databaseUrl,
      TEMPORAL_ADDRESS: servers.temporalAddress,
      TEMPORAL_NAMESPACE: config.temporal.namespace,
      PERDURE_SCHEMA: SCHEMA,
      PAYMENTS_URL: payments.url,
      REFUND_KIND: 'idempotent',
      ...(fault
        ? { PERDURE_FAULT: fault, PERDURE_FAULT_ONCE_FILE: join(once, fault.replace(':', '-')) }
        : {}),
    });
  const thread = await tellTheStory(client, payments, worker);
  await check(client, payments, thread);
}

type StartWorker = (fault?: string) => Promise<DemoWorker>;

async function tellTheStory(client: PerdureClient, payments: Payments, start: StartWorker): Promise<string> {
  story.chapter('A ticket comes in');
  const input = JSON.parse(readFileSync(new URL(TICKET, import.meta.url), 'utf8')) as {
    ticket: { subject: string; body: string };
  };
  story.quote(`${input.ticket.subject}\n${input.ticket.body}`);
  const first = await begin(start, 'node:check_policy');
  const run = await client.startRun({ graph: 'refund-flow', input, actor: 'user:mail-gateway' });
  story.event(`thread ${run.thread_id} runs refund-flow@${run.version}`);
  story.killed(`${await first.ended}: worker ${first.pid} was killed inside the node check_policy`);

  const second = await begin(start);
  const asked = await client.waitForRun(run.run_id);
  const question = asked.interrupts?.[0];
  if (asked.status !== 'interrupted' || !question)
    throw new Error(
      `The run should wait for a person, but it is ${asked.status}: ${asked.error?.message ?? ''}`,
    );
  story.event('it went on from the last checkpoint and now waits for a person:');
  story.quote(JSON.stringify(question.value, null, 2));

  story.chapter('The answer comes while no worker is up');
  second.kill('SIGKILL');
  story.killed(`${await second.ended}: worker ${second.pid}, which only waited`);
  const answered = await client.answer(
    run.thread_id,
    { approved: true, note: 'boots came back in good order' },
    { interruptId: question.id, actor: 'user:reviewer' },
  );
  story.event('user:reviewer approves; the answer is on record, nothing runs');
  story.books(await payments.books(), ORDER);

  story.chapter('The worst moment: paid, but not yet on record');
  const third = await begin(start, 'operation:effect-done');
  story.killed(`${await third.ended}: worker ${third.pid} was killed after the payment, before its record`);
  story.books(await payments.books(), ORDER);
  const operations = await client.operations({ threadId: run.thread_id });
  const refund = operations.find((one) => one.tool.includes('refund'));
  story.event(
    `perdure's ledger says of ${refund?.operation_id ?? 'the refund'}: ${refund?.status ?? 'nothing'}`,
  );

  const fourth = await begin(start);
  const end = await client.waitForRun(answered.run_id);
  story.event(`the run ends: ${end.status}`);
  if (end.status !== 'success')
    throw new Error(`The run should succeed: ${end.error?.message ?? end.status}`);
  fourth.kill('SIGTERM');
  await fourth.ended;
  const { values } = end;
  if (typeof values === 'object' && values !== null && 'reply' in values)
    story.quote(textOf(values['reply']));
  return run.thread_id;
}

async function begin(start: StartWorker, fault?: string): Promise<DemoWorker> {
  const worker = await start(fault);
  cleanUps.push(async () => {
    worker.kill('SIGKILL');
    await worker.ended;
  });
  story.event(`worker ${worker.pid} is up`);
  return worker;
}

async function check(client: PerdureClient, payments: Payments, thread: string): Promise<void> {
  story.chapter('The books');
  const books = await payments.books();
  story.books(books, ORDER);
  story.say(
    `requests to refund that reached the service: ${books.requests['POST /refunds'] ?? 0}; messages sent: ${books.messages.length}`,
  );
  story.say(pc.dim("the thread's history, newest first:"));
  for (const entry of await client.history(thread))
    story.quote(
      `${String(entry.superstep).padStart(3)}  ${entry.graph_version}  next: ${entry.resume_node ?? 'the end'}`,
    );
  const refunds = books.refunds.filter((refund) => refund.order_id === ORDER);
  if (refunds.length !== 1 || books.messages.length !== 1)
    throw new Error(
      `The books are wrong: ${refunds.length} refunds and ${books.messages.length} messages instead of one of each.`,
    );
  story.say(pc.green(pc.bold('Three kills, one approval, one refund, one reply.')));
  story.chapter('Where to look next');
  story.say('The data is still there. Start the servers and look:');
  story.say(`  npx perdure up --no-worker`);
  story.say(`  PERDURE_SCHEMA=${SCHEMA} npx perdure thread ${thread}`);
  story.say(`  PERDURE_SCHEMA=${SCHEMA} npx perdure operations ${thread}`);
  story.say('The graph is in graphs/refund-flow; run it yourself:');
  story.say('  npx perdure run refund-flow --input graphs/refund-flow/tickets/403-zh-broken-headphones.json');
}

async function startServers(): Promise<{ databaseUrl: string; temporalAddress: string }> {
  const before = existsSync(config.home) ? await serverStatus({ home: config.home }) : undefined;
  const servers = await up({
    home: config.home,
    databaseUrl: config.databaseUrl,
    temporalAddress: config.temporal.address,
    temporalNamespace: config.temporal.namespace,
    temporalCli: config.temporalCli,
    cacheDir: config.cache,
    searchPath: config.searchPath,
    onProgress: (line) => story.event(line),
  });
  const ranBefore = [before?.postgres?.alive, before?.temporal?.alive].includes(true);
  if (!ranBefore) cleanUps.push(() => down({ home: config.home }));
  return servers;
}

function textOf(reply: unknown): string {
  return typeof reply === 'string' ? reply : JSON.stringify(reply, null, 2);
}

async function cleanUp(): Promise<void> {
  for (const step of cleanUps.toReversed())
    await step().catch((error: unknown) => process.stderr.write(`${String(error)}\n`));
  cleanUps.length = 0;
}

for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => {
    void cleanUp().then(() => process.exit(130));
  });

try {
  await main();
  await cleanUp();
} catch (error) {
  process.stderr.write(
    `\n${pc.red('The demo failed:')} ${error instanceof Error ? error.message : String(error)}\n`,
  );
  await cleanUp();
  process.exitCode = 1;
}
