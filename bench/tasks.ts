import { randomUUID } from 'node:crypto';
import type { PerdureClient } from '../src/client/client.ts';
import { connect } from '../src/client/connect.ts';
import { migrate } from '../src/postgres/migrate.ts';
import { startBareActivities, type BareActivities } from './bare/bare-activities.ts';
import type { BenchServers } from './bench-servers.ts';
import { startBenchWorker } from './bench-worker.ts';
import { median, row, type BenchReport } from './report.ts';

/** Tool calls of a run, one after the other. */
const TOOLS = 20;
const RUNS = 9;
const WARM_UP = 3;
const THREADS = 50;
const ROUNDS = 3;

const GRAPHS = ['tools-inline', 'tools-activity', 'tools-superstep'] as const;
type Graph = (typeof GRAPHS)[number];

/**
 * An agent whose model and tool do nothing and take no time, with the tool inline, with each tool call as an activity of
 * its own, and with every superstep as one. So what is left is the cost of the ways.
 */
export async function run(servers: BenchServers, progress: (line: string) => void): Promise<BenchReport> {
  const schema = `bench_${randomUUID().slice(0, 8)}`;
  const client = await connect({
    databaseUrl: servers.databaseUrl,
    schema,
    temporal: { address: servers.temporalAddress },
  });
  await migrate(client.database);
  const worker = await startBenchWorker(servers, schema);
  const bare = await startBareActivities(client.temporal, servers.temporalAddress);
  try {
    const times = await singleThread(client, bare, progress);
    const rates: number[] = [];
    const bareRates: number[] = [];
    for (let round = 0; round <= ROUNDS; round += 1) {
      progress(`${THREADS} threads, round ${round + 1} of ${ROUNDS + 1}`);
      const rate = await ratePerSecond(() => once(client, 'tools-activity'));
      const bareRate = await ratePerSecond(() => bare.once(TOOLS));
      if (round === 0) continue;
      rates.push(rate);
      bareRates.push(bareRate);
    }
    const [inline, activity, superstep] = GRAPHS.map((graph) => median(times[graph]));
    const over = ((activity ?? 0) - (inline ?? 0)) / TOOLS;
    return {
      name: 'tasks',
      unit: 'ms, but for the row "a second"',
      runs: RUNS,
      rows: [
        row('tool activity over inline, 1 thread', over, 15),
        row('tool activity over inline, 1 thread, against a bare activity', over, median(times.bare) / TOOLS),
        row('tool activities, 50 threads', median(rates), 200),
        row('tool activities, 50 threads, against bare activities', median(rates), median(bareRates)),
        row('against an activity per superstep', activity ?? 0, superstep ?? 0),
      ],
      notes: [
        `a run is ${TOOLS} tool calls, each after a turn of a model; its time inline is ${(inline ?? 0).toFixed(0)} ms`,
        'peer of the first and the third row: the aim (15 ms a call, 200 calls a second)',
        'bare: a workflow of activities that do nothing, with a worker of its own on the same server',
        `peer of the last row: the same graph and runtime with every node an activity; time of a run. Median of ${RUNS} runs`,
        `tool activities a second: median of ${ROUNDS} rounds; worker, client, Temporal and Postgres are on one machine`,
      ],
    };
  } finally {
    await bare.close();
    await worker.stop();
    await client.database.query(`DROP SCHEMA IF EXISTS "${schema}" CASCADE`);
    await client.close();
  }
}

/** Calls a second, of as many threads as are measured. */
async function ratePerSecond(one: () => Promise<void>): Promise<number> {
  const started = performance.now();
  await Promise.all(Array.from({ length: THREADS }, one));
  return (THREADS * TOOLS * 1_000) / (performance.now() - started);
}

type Times = Record<Graph | 'bare', number[]>;

/** Milliseconds a run; the kinds take turns, so that noise of the machine meets all. */
async function singleThread(
  client: PerdureClient,
  bare: BareActivities,
  progress: (line: string) => void,
): Promise<Times> {
  const times: Times = { 'tools-inline': [], 'tools-activity': [], 'tools-superstep': [], bare: [] };
  for (let round = 0; round < WARM_UP + RUNS; round += 1) {
    progress(`round ${round + 1} of ${WARM_UP + RUNS}`);
    for (const kind of [...GRAPHS, 'bare'] as const) {
      const started = performance.now();
      await (kind === 'bare' ? bare.once(TOOLS) : once(client, kind));
      if (round >= WARM_UP) times[kind].push(performance.now() - started);
    }
  }
  return times;
}

async function once(client: PerdureClient, graph: Graph): Promise<void> {
  const result = await client.run({
    graph,
    input: { left: TOOLS, log: [] },
    config: { recursion_limit: 100 },
  });
  if (result.status !== 'success')
    throw new Error(`a run ended in ${result.status}: ${result.error?.message}`);
}
