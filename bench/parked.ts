import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { PerdureClient } from '../src/client/client.ts';
import { connect } from '../src/client/connect.ts';
import { migrate } from '../src/postgres/migrate.ts';
import type { BenchServers } from './bench-servers.ts';
import { startBenchWorker, type BenchWorker } from './bench-worker.ts';
import { median, row, type BenchReport } from './report.ts';

const THREADS = 10_000;
const AT_ONCE = 100;
const WAKES = 50;

/**
 * Memory of a worker while threads wait for a person, beside the same worker before they came: the resident set after a
 * forced garbage collection. And how soon a waiting thread goes on.
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
  try {
    // The first threads bring code and caches into memory that any worker has.
    await park(client, 400, () => undefined);
    await settle(worker);
    const before = residentMegabytes(worker);
    const threads = await park(client, THREADS, progress);
    await settle(worker);
    const after = residentMegabytes(worker);
    const wakes: number[] = [];
    for (const thread of threads.slice(0, WAKES)) {
      const started = performance.now();
      const { run_id } = await client.answer(thread, 'yes');
      await client.waitForRun(run_id);
      wakes.push(performance.now() - started);
    }
    return {
      name: 'parked',
      unit: 'MB resident, ms to wake',
      runs: WAKES,
      rows: [
        row(`worker with ${THREADS} more waiting threads, MB (peer: before)`, after, before),
        row('waking one: median ms (peer: 1,000 ms)', median(wakes), 1_000),
        row('waking one: worst ms (peer: 1,000 ms)', Math.max(...wakes), 1_000),
      ],
      notes: [
        `the difference is ${(((after - before) * 1_024) / THREADS).toFixed(1)} kB a thread`,
        'before: the same worker after 400 threads, which filled its workflow cache (200 by default) and warmed its code',
      ],
    };
  } finally {
    await worker.stop();
    await client.database.query(`DROP SCHEMA IF EXISTS "${schema}" CASCADE`);
    await client.close();
  }
}

async function park(
  client: PerdureClient,
  count: number,
  progress: (line: string) => void,
): Promise<string[]> {
  const threads: string[] = [];
  for (let begun = 0; begun < count; begun += AT_ONCE) {
    const results = await Promise.all(
      Array.from({ length: AT_ONCE }, () => client.run({ graph: 'parked', input: {} })),
    );
    for (const result of results) {
      if (result.status !== 'interrupted') throw new Error(`a thread is ${result.status}`);
      threads.push(result.thread_id);
    }
    progress(`${threads.length} of ${count} threads wait`);
  }
  return threads;
}

/** Has the worker collect its garbage, and gives it time to evict workflows and to return memory. */
function settle(worker: BenchWorker): Promise<void> {
  worker.process.kill('SIGUSR2');
  return new Promise((resolve) => {
    setTimeout(resolve, 5_000);
  });
}

function residentMegabytes(worker: BenchWorker): number {
  const match = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${worker.pid}/status`, 'utf8'));
  if (!match?.[1]) throw new Error('the resident set of a process can be read on Linux only');
  return Number(match[1]) / 1_024;
}
