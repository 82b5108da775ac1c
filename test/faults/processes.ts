import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

export type ProcessEnd = { signal: NodeJS.Signals | null; code: number | null; lastWords: string };

/** A process that a test started, and that does not outlive the test file. */
export type TestProcess = {
  pid: number;
  /** Resolves with the first line it prints that is JSON; undefined when it ends without. */
  said: Promise<unknown>;
  ended: Promise<ProcessEnd>;
  kill(signal: NodeJS.Signals): void;
};

const running = new Set<ChildProcess>();
// For a run that is cut short, where no hook of the test file is called.
process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});
process.once('SIGTERM', () => process.exit());

/** Ends what is left of the processes that this test file started. */
export async function endProcesses(): Promise<void> {
  const ends = [...running].map((child) => once(child, 'exit'));
  for (const child of running) child.kill('SIGKILL');
  await Promise.all(ends);
}

/** Runs a script of Node with these variables besides the own ones. */
export function startProcess(args: readonly string[], env: Record<string, string>): TestProcess {
  const child = spawn(process.execPath, args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...env },
  });
  running.add(child);
  let lastWords = '';
  child.stderr.on('data', (chunk: Buffer) => {
    lastWords = (lastWords + chunk.toString()).slice(-4_000);
  });
  const ended = once(child, 'exit').then(([code, signal]: (number | NodeJS.Signals | null)[]) => {
    running.delete(child);
    return {
      code: typeof code === 'number' ? code : null,
      signal: typeof signal === 'string' ? signal : null,
      lastWords,
    };
  });
  const line = new Promise<unknown>((resolve) => {
    createInterface({ input: child.stdout }).on('line', (text) => {
      if (text.startsWith('{')) resolve(JSON.parse(text));
    });
  });
  const said = Promise.race([line, ended.then(() => undefined)]);
  return { pid: child.pid ?? 0, said, ended, kill: (signal) => child.kill(signal) };
}

export type WorkerPlace = {
  databaseUrl: string;
  temporalAddress: string;
  schema: string;
  /** The langgraph.json to serve. */
  project: string;
  env?: Record<string, string>;
};

/** Starts the worker that the build made, as users run it. Ready once it has `said` so. */
export function startWorkerProcess(place: WorkerPlace): TestProcess {
  const main = fileURLToPath(new URL('../../dist/workers/main.js', import.meta.url));
  return startProcess([main, '--project', place.project], {
    DATABASE_URL: place.databaseUrl,
    TEMPORAL_ADDRESS: place.temporalAddress,
    PERDURE_SCHEMA: place.schema,
    PERDURE_POOL_SIZE: '4',
    ...place.env,
  });
}
