import { randomUUID } from 'node:crypto';
import { MemorySaver } from '@langchain/langgraph';
import { PostgresSaver } from '@langchain/langgraph-checkpoint-postgres';
import pg from 'pg';
import type { PerdureClient } from '../src/client/client.ts';
import { connect } from '../src/client/connect.ts';
import { migrate } from '../src/postgres/migrate.ts';
import type { BenchServers } from './bench-servers.ts';
import { startBenchWorker } from './bench-worker.ts';
import { chain } from './graphs/chain.ts';
import { median, row, type BenchReport } from './report.ts';

const RUNS = 7;
const THREADS = 50;

type Runner = (steps: 20 | 200, thread: string) => Promise<void>;

/**
 * Chains of 20 and 200 supersteps that do nothing, so that the cost of a superstep (the slope) and of a run (the
 * rest) show apart. The peer is bare LangGraph with the shipped PostgresSaver, sync durability on both.
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
  const pool = new pg.Pool({ connectionString: servers.databaseUrl, max: 10 });
  // The servers stop before the pool has heard of its connections' ends.
  pool.on('error', () => undefined);
  try {
    const shipped = new PostgresSaver(pool, undefined, { schema: `${schema}_bare` });
    await shipped.setup();
    const runners: Record<'ours' | 'bare' | 'memory', Runner> = {
      ours: ourRunner(client),
      bare: bareRunner(shipped),
      memory: bareRunner(new MemorySaver()),
    };
    const single = await singleThread(runners, progress);
    const many = await manyThreads(runners, progress);
    return report(single, many);
  } finally {
    await worker.stop();
    await pool.query(
      `DROP SCHEMA IF EXISTS "${schema}" CASCADE; DROP SCHEMA IF EXISTS "${schema}_bare" CASCADE`,
    );
    await pool.end();
    await client.close();
  }
}

function ourRunner(client: PerdureClient): Runner {
  return async (steps, thread) => {
    const result = await client.run({
      graph: 'chain',
      thread_id: thread,
      input: { rounds: steps / 20, log: [] },
      config: { recursion_limit: 500 },
    });
    if (result.status !== 'success')
      throw new Error(`a run ended in ${result.status}: ${result.error?.message}`);
  };
}

function bareRunner(checkpointer: PostgresSaver | MemorySaver): Runner {
  const graph = chain().compile({ checkpointer });
  return async (steps, thread) => {
    await graph.invoke(
      { rounds: steps / 20, log: [] },
      { configurable: { thread_id: thread }, durability: 'sync', recursionLimit: 500 },
    );
  };
}

type Times = Record<keyof ReturnType<typeof emptyTimes>, { 20: number; 200: number }>;

function emptyTimes() {
  return {
    ours: { 20: [] as number[], 200: [] as number[] },
    bare: { 20: [] as number[], 200: [] as number[] },
    memory: { 20: [] as number[], 200: [] as number[] },
  };
}

/** Milliseconds a run, one thread at a time; the kinds take turns, so that noise of the machine meets all. */
async function singleThread(
  runners: Record<'ours' | 'bare' | 'memory', Runner>,
  progress: (line: string) => void,
): Promise<Times> {
  return measure(runners, progress, RUNS + 2, 2, async (runner, steps) => {
    const started = performance.now();
    await runner(steps, randomUUID());
    return performance.now() - started;
  });
}

/** Supersteps a second of 50 threads at once. */
async function manyThreads(
  runners: Record<'ours' | 'bare' | 'memory', Runner>,
  progress: (line: string) => void,
): Promise<Times> {
  return measure(runners, progress, 4, 1, async (runner, steps) => {
    const started = performance.now();
    await Promise.all(Array.from({ length: THREADS }, () => runner(steps, randomUUID())));
    return (THREADS * steps * 1_000) / (performance.now() - started);
  });
}

async function measure(
  runners: Record<'ours' | 'bare' | 'memory', Runner>,
  progress: (line: string) => void,
  rounds: number,
  warmUp: number,
  once: (runner: Runner, steps: 20 | 200) => Promise<number>,
): Promise<Times> {
  const times = emptyTimes();
  for (let round = 0; round < rounds; round += 1) {
    progress(`round ${round + 1} of ${rounds}`);
    for (const name of ['ours', 'bare', 'memory'] as const)
      for (const steps of [20, 200] as const) {
        const value = await once(runners[name], steps);
        if (round >= warmUp) times[name][steps].push(value);
      }
  }
  const medians = (of: { 20: number[]; 200: number[] }) => ({ 20: median(of[20]), 200: median(of[200]) });
  return { ours: medians(times.ours), bare: medians(times.bare), memory: medians(times.memory) };
}

function report(single: Times, many: Times): BenchReport {
  const slope = (times: { 20: number; 200: number }) => (times[200] - times[20]) / 180;
  const rest = (times: { 20: number; 200: number }) => times[20] - 20 * slope(times);
  return {
    name: 'chain',
    unit: 'ms for cost and overhead, supersteps a second for throughput',
    runs: RUNS,
    rows: [
      row('superstep cost, 1 thread', slope(single.ours), slope(single.bare)),
      row('superstep cost, 1 thread, against memory', slope(single.ours), slope(single.memory)),
      row('run overhead, 1 thread', rest(single.ours), Math.max(rest(single.bare), 0.1)),
      row('throughput, 50 threads of 20 steps', many.ours[20], many.bare[20]),
      row('throughput, 50 threads of 200 steps', many.ours[200], many.bare[200]),
      row('throughput, 50 threads of 200 steps, against memory', many.ours[200], many.memory[200]),
    ],
    notes: [
      'peer: bare LangGraph with the shipped PostgresSaver in this process; "against memory": with its in-memory saver',
      'cost of a superstep: (time of 200 - time of 20) / 180; overhead of a run: the rest of the time of 20',
      'throughput is the median of 3 runs; ours has its worker and Temporal on the same machine',
    ],
  };
}
