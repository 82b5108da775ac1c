import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, existsSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { PerdureClient } from '../src/client/client.ts';
import { connect } from '../src/client/connect.ts';
import { migrate } from '../src/postgres/migrate.ts';
import type { BenchServers } from './bench-servers.ts';
import { startBenchWorker, type BenchWorker } from './bench-worker.ts';
import { median, row, type BenchReport } from './report.ts';

const ROUNDS = 20;
const GIVE_UP_MS = 60_000;

type Ending = 'SIGKILL' | 'SIGTERM';

/** How soon a thread goes on on another worker, from the end of the one that had it. */
export async function run(servers: BenchServers, progress: (line: string) => void): Promise<BenchReport> {
  const schema = `bench_${randomUUID().slice(0, 8)}`;
  const folder = mkdtempSync(join(tmpdir(), 'perdure-bench-resume-'));
  const client = await connect({
    databaseUrl: servers.databaseUrl,
    schema,
    temporal: { address: servers.temporalAddress },
  });
  await migrate(client.database);
  const pair = new WorkerPair(() => startBenchWorker(servers, schema));
  try {
    await pair.fill();
    const killed: number[] = [];
    const told: number[] = [];
    const answered: number[] = [];
    for (let round = 0; round < ROUNDS; round += 1) {
      const log = () => join(folder, randomUUID());
      killed.push(await whileRunning(client, pair, log(), 'SIGKILL'));
      told.push(await whileRunning(client, pair, log(), 'SIGTERM'));
      answered.push(await whileWaiting(client, pair, log()));
      progress(`round ${round + 1} of ${ROUNDS}: ${killed.at(-1)}, ${told.at(-1)}, ${answered.at(-1)} ms`);
    }
    const rows = (name: string, times: number[], aim: number) => [
      row(`${name}: median (peer: the aim)`, median(times), aim),
      row(`${name}: worst (peer: the aim)`, Math.max(...times), aim),
    ];
    return {
      name: 'resume',
      unit: 'ms',
      runs: ROUNDS,
      rows: [
        ...rows('a running segment after kill -9', killed, 3_000),
        ...rows('an answer to a waiting thread, its worker killed', answered, 1_200),
        ...rows('a running segment after SIGTERM', told, 500),
      ],
      notes: ['two workers; to the beginning of the next superstep on the other one'],
    };
  } finally {
    await pair.stop();
    await client.database.query(`DROP SCHEMA IF EXISTS "${schema}" CASCADE`);
    await client.close();
    await rm(folder, { recursive: true, force: true });
  }
}

/** Two workers; one that ended is replaced. */
class WorkerPair {
  readonly #start: () => Promise<BenchWorker>;
  #workers: BenchWorker[] = [];

  constructor(start: () => Promise<BenchWorker>) {
    this.#start = start;
  }

  async fill(): Promise<void> {
    this.#workers = this.#workers.filter(
      ({ process }) => process.exitCode === null && process.signalCode === null,
    );
    while (this.#workers.length < 2) this.#workers.push(await this.#start());
    // Poll and settle, so that the newer of both is as good as the older.
    await delay(1_000);
  }

  end(pid: number, signal: Ending): { dead: Promise<unknown> } {
    const worker = this.#workers.find((one) => one.pid === pid);
    if (!worker) throw new Error(`no worker has the pid ${pid}`);
    const dead = once(worker.process, 'exit');
    worker.process.kill(signal);
    return { dead };
  }

  async stop(): Promise<void> {
    await Promise.all(this.#workers.map((worker) => worker.stop()));
  }
}

async function whileRunning(
  client: PerdureClient,
  pair: WorkerPair,
  log: string,
  signal: Ending,
): Promise<number> {
  const { run_id } = await client.startRun({
    graph: 'steps',
    input: { log, left: 30, ask: false },
    config: { recursion_limit: 50 },
  });
  const [first] = await lines(log, (all) => all.length >= 4);
  const pid = first?.pid ?? 0;
  const begun = Date.now();
  pair.end(pid, signal);
  const after = await lines(log, (all) => all.some((line) => line.pid !== pid));
  const took = (after.find((line) => line.pid !== pid)?.at ?? 0) - begun;
  await succeeded(client, run_id);
  await pair.fill();
  return took;
}

async function whileWaiting(client: PerdureClient, pair: WorkerPair, log: string): Promise<number> {
  const { thread_id: thread } = await client.run({ graph: 'steps', input: { log, left: 1, ask: false } });
  const asked = await client.run({ graph: 'steps', thread_id: thread, input: { log, left: 1, ask: true } });
  if (asked.status !== 'interrupted') throw new Error(`the thread is ${asked.status}`);
  // Whoever took the first run has the workflow in memory, and so also took the second.
  const before = await lines(log, (all) => all.length === 1);
  // So that the thread does wait: its run is at an end a few milliseconds before its workflow knows.
  await delay(500);
  await pair.end(before[0]?.pid ?? 0, 'SIGKILL').dead;
  const begun = Date.now();
  const { run_id } = await client.answer(thread, 'yes');
  const after = await lines(log, (all) => all.length > 1);
  const took = (after[1]?.at ?? 0) - begun;
  await succeeded(client, run_id);
  await pair.fill();
  return took;
}

async function succeeded(client: PerdureClient, runId: string): Promise<void> {
  const { status } = await client.waitForRun(runId);
  if (status !== 'success') throw new Error(`a run ended in ${status}`);
}

type Line = { pid: number; at: number };

async function lines(log: string, enough: (all: Line[]) => boolean): Promise<Line[]> {
  const end = Date.now() + GIVE_UP_MS;
  for (;;) {
    const all = existsSync(log)
      ? readFileSync(log, 'utf8')
          .split('\n')
          .filter((line) => line !== '')
          .map((line) => line.split(' '))
          .map(([pid, at]) => ({ pid: Number(pid), at: Number(at) }))
      : [];
    if (enough(all)) return all;
    if (Date.now() > end) throw new Error('the thread did not go on');
    await delay(5);
  }
}
