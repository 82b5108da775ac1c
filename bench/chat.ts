import { randomUUID } from 'node:crypto';
import { HumanMessage } from '@langchain/core/messages';
import { MemorySaver } from '@langchain/langgraph';
import type { BaseCheckpointSaver } from '@langchain/langgraph-checkpoint';
import { PostgresSaver } from '@langchain/langgraph-checkpoint-postgres';
import { PerdureSaver } from '../src/checkpoint/saver.ts';
import type { PerdureClient } from '../src/client/client.ts';
import { connect } from '../src/client/connect.ts';
import { threadWorkflowId } from '../src/contracts/ids.ts';
import { migrate } from '../src/postgres/migrate.ts';
import type { BenchServers } from './bench-servers.ts';
import { startBenchWorker } from './bench-worker.ts';
import { chat, type ChatKind } from './graphs/chat.ts';
import { median, row, type BenchReport, type BenchRow } from './report.ts';

const KINDS: readonly ChatKind[] = ['plain', 'delta', 'agent'];
const TURNS = 1_000;
/** How long the shipped saver may take for one thread, in ms; it is stopped wherever it is then. */
const SHIPPED_BUDGET_MS = 120_000;
/** Over so many turns times and bytes are taken: long enough to hold a snapshot of a DeltaChannel. */
const WINDOW = 50;
/** How often a thread is asked how much it takes. */
const MEASURE_EVERY = 10;

/** One turn on one thread. */
type Turn = (turn: number) => Promise<void>;
type Course = { ms: number[]; bytes: Map<number, number> };

/**
 * A thread of many turns, each a model call and a tool's result of 5 kB: what a turn costs in time and bytes as the
 * conversation grows. Through a worker, and with the saver alone in this process; the peers are LangGraph with its
 * in-memory saver, and with the shipped PostgresSaver as far as it gets in two minutes.
 */
export async function run(
  servers: BenchServers,
  progress: (line: string) => void,
  options: { turns?: number } = {},
): Promise<BenchReport> {
  const turns = options.turns ?? TURNS;
  // As long as the default: it is in the name of the task queue, and so in the history.
  const schema = `b_${randomUUID().slice(0, 5)}`;
  const client = await connect({
    databaseUrl: servers.databaseUrl,
    schema,
    temporal: { address: servers.temporalAddress },
  });
  await migrate(client.database);
  const worker = await startBenchWorker(servers, schema);
  const rows: BenchRow[] = [];
  const notes: string[] = [];
  try {
    const shipped = new PostgresSaver(client.database.pool, undefined, { schema: `${schema}_shipped` });
    await shipped.setup();
    for (const kind of KINDS) {
      const thread = randomUUID();
      const bytesIn = (of: string, id: string) => () => bytesOf(client, of, id);
      const ours = await course(turns, runTurn(client, kind, thread), bytesIn(schema, thread));
      const content = (await contentOf(client, thread)) / turns;
      progress(`${kind}: ${turns} turns through the worker`);
      const alone = randomUUID();
      const saver = new PerdureSaver(client.database);
      const direct = await course(turns, bareTurn(kind, saver, alone), bytesIn(schema, alone));
      progress(`${kind}: ${turns} turns with the saver alone`);
      const memory = await course(turns, memoryTurn(kind));
      progress(`${kind}: ${turns} turns in memory`);
      const id = randomUUID();
      const old = await course(
        turns,
        bareTurn(kind, shipped, id),
        bytesIn(`${schema}_shipped`, id),
        SHIPPED_BUDGET_MS,
      );
      progress(`${kind}: ${old.ms.length} turns with the shipped saver`);
      rows.push(...rowsOf(kind, turns, content, { ours, direct, memory, old }));
      const history = await historyBytes(client, schema, thread);
      rows.push(row(`${kind}: workflow history in all, kB (peer: 1 MB)`, history / 1_000, 1_000));
      notes.push(`${kind}: the shipped saver came to turn ${old.ms.length}`);
    }
  } finally {
    await worker.stop();
    await client.database.query(
      `DROP SCHEMA IF EXISTS "${schema}" CASCADE; DROP SCHEMA IF EXISTS "${schema}_shipped" CASCADE`,
    );
    await client.close();
  }
  return {
    name: 'chat',
    unit: 'see case; bytes are those of whole rows in the tables of checkpoints',
    runs: WINDOW,
    rows,
    notes: [
      ...notes,
      `one thread of each kind; a figure at a turn is over the ${WINDOW} turns that end with it, times as medians`,
      'content: the messages as JSON',
      'in memory only the newest checkpoint of plain and agent is kept, since all of them need 8 GB and more',
      'plain and agent in memory serialise the whole state at each step, in the process that runs the graph; ours adds Temporal, Postgres and the way to the client',
    ],
  };
}

/** Takes the turns one after the other, until they are done or the time is up. */
async function course(
  turns: number,
  take: Turn,
  bytes?: () => Promise<number>,
  budgetMs = Number.POSITIVE_INFINITY,
): Promise<Course> {
  const taken: Course = { ms: [], bytes: new Map([[0, 0]]) };
  const began = performance.now();
  for (let turn = 1; turn <= turns && performance.now() - began < budgetMs; turn += 1) {
    const started = performance.now();
    await take(turn);
    taken.ms.push(performance.now() - started);
    if (bytes && turn % MEASURE_EVERY === 0) taken.bytes.set(turn, await bytes());
  }
  return taken;
}

function runTurn(client: PerdureClient, kind: ChatKind, thread_id: string): Turn {
  return async (turn) => {
    const input = { messages: [{ role: 'user', content: `question ${turn}` }] };
    const result = await client.run({ graph: kind, thread_id, input });
    if (result.status !== 'success')
      throw new Error(`turn ${turn} ended in ${result.status}: ${result.error?.message}`);
  };
}

type Chat = { invoke(input: unknown, config: unknown): Promise<unknown> };

function bareTurn(kind: ChatKind, saver: BaseCheckpointSaver, thread: string): Turn {
  const graph = chat(kind, saver) as unknown as Chat;
  const config = { configurable: { thread_id: thread }, durability: 'sync' };
  return async (turn) => {
    await graph.invoke({ messages: [new HumanMessage(`question ${turn}`)] }, config);
  };
}

function memoryTurn(kind: ChatKind): Turn {
  const saver = new MemorySaver();
  const thread = randomUUID();
  const take = bareTurn(kind, saver, thread);
  return async (turn) => {
    await take(turn);
    // What lies in a DeltaChannel is put together from older checkpoints.
    if (kind !== 'delta') keepNewest(saver, thread);
  };
}

function keepNewest(saver: MemorySaver, thread: string): void {
  const checkpoints = saver.storage[thread]?.[''] ?? {};
  const newest = Object.keys(checkpoints).sort().at(-1) ?? '';
  for (const id of Object.keys(checkpoints)) if (id !== newest) delete checkpoints[id];
  for (const key of Object.keys(saver.writes)) if (!key.includes(newest)) delete saver.writes[key];
}

async function bytesOf(client: PerdureClient, schema: string, thread: string): Promise<number> {
  const tables = ['checkpoints', 'checkpoint_blobs', 'checkpoint_writes'];
  if (!schema.endsWith('_shipped')) tables.push('checkpoint_elements');
  const sums = tables.map(
    (table) =>
      `(SELECT coalesce(sum(pg_column_size(r.*)), 0) FROM "${schema}"."${table}" r WHERE r.thread_id = $1)`,
  );
  const { rows } = await client.database.query<{ bytes: string }>(`SELECT ${sums.join(' + ')} AS bytes`, [
    thread,
  ]);
  return Number(rows[0]?.bytes);
}

/** The messages of the newest run's output as JSON. */
async function contentOf(client: PerdureClient, thread: string): Promise<number> {
  const [newest] = await client.runs(thread);
  const { values } = await client.readRun(newest?.run_id ?? '');
  return JSON.stringify(values).length;
}

/** Of all executions of the thread's workflow. */
async function historyBytes(client: PerdureClient, schema: string, thread: string): Promise<number> {
  const workflowId = threadWorkflowId(schema, 'default', thread);
  let bytes = 0;
  for await (const execution of client.temporal.workflow.list({ query: `WorkflowId = '${workflowId}'` })) {
    const handle = client.temporal.workflow.getHandle(workflowId, execution.runId);
    bytes += (await handle.describe()).historySize ?? 0;
  }
  return bytes;
}

function rowsOf(
  kind: ChatKind,
  turns: number,
  content: number,
  { ours, direct, memory, old }: Record<'ours' | 'direct' | 'memory' | 'old', Course>,
): BenchRow[] {
  const early = Math.max(WINDOW, Math.round(turns / 10 / WINDOW) * WINDOW);
  const middle = Math.max(WINDOW, Math.round((turns * 0.3) / WINDOW) * WINDOW);
  const timeAt = (of: Course, turn: number) => median(of.ms.slice(Math.max(0, turn - WINDOW), turn));
  const bytesAt = (of: Course, turn: number) =>
    ((of.bytes.get(turn) ?? 0) - (of.bytes.get(turn - WINDOW) ?? 0)) / WINDOW;
  const reached = Math.floor(old.ms.length / MEASURE_EVERY) * MEASURE_EVERY;
  const peerTurn = Math.min(middle, reached);
  return [
    row(`${kind}: bytes per turn, ${turns} over ${early}`, bytesAt(ours, turns), bytesAt(ours, early)),
    row(
      `${kind}: bytes per turn, saver alone, ${turns} over ${early}`,
      bytesAt(direct, turns),
      bytesAt(direct, early),
    ),
    row(`${kind}: stored bytes per turn over content`, (ours.bytes.get(turns) ?? 0) / turns, content),
    row(
      `${kind}: bytes in all over shipped, turn ${reached}`,
      ours.bytes.get(reached) ?? 0,
      old.bytes.get(reached) ?? 0,
    ),
    ...[middle, turns].flatMap((turn) => [
      row(`${kind}: time per turn over in-memory, turn ${turn}`, timeAt(ours, turn), timeAt(memory, turn)),
      row(`${kind}: saver alone over in-memory, turn ${turn}`, timeAt(direct, turn), timeAt(memory, turn)),
    ]),
    row(
      `${kind}: saver alone over shipped, turn ${peerTurn}`,
      timeAt(direct, peerTurn),
      timeAt(old, peerTurn),
    ),
  ];
}
