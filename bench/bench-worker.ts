import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { WORKER_FLAGS } from '../src/cli/worker-flags.ts';
import type { BenchServers } from './bench-servers.ts';

export type BenchWorker = { pid: number; process: ChildProcess; stop(): Promise<void> };

/** Makes a worker collect its garbage when it is sent SIGUSR2. */
const COLLECT = 'data:text/javascript,process.on("SIGUSR2",()=>{gc();gc();})';

/** Starts a built worker process for bench/graphs/langgraph.json and waits until it is ready. */
export async function startBenchWorker(
  servers: BenchServers,
  schema: string,
  env: Record<string, string> = {},
): Promise<BenchWorker> {
  const main = fileURLToPath(new URL('../dist/workers/main.js', import.meta.url));
  const project = fileURLToPath(new URL('./graphs/langgraph.json', import.meta.url));
  const flags = [...WORKER_FLAGS, '--expose-gc', '--import', COLLECT];
  const child = spawn(process.execPath, [...flags, main, '--project', project], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: {
      ...process.env,
      DATABASE_URL: servers.databaseUrl,
      TEMPORAL_ADDRESS: servers.temporalAddress,
      PERDURE_SCHEMA: schema,
      ...env,
    },
  });
  const ready = new Promise<void>((resolve, reject) => {
    createInterface({ input: child.stdout }).on('line', (line) => {
      if (line.includes('"ready":true')) resolve();
    });
    child.once('exit', (code) => reject(new Error(`the worker ended with status ${code}`)));
  });
  await ready;
  return {
    pid: child.pid ?? 0,
    process: child,
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const ended = once(child, 'exit');
      child.kill('SIGTERM');
      await ended;
    },
  };
}
