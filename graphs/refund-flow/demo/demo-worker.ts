import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

export type DemoWorker = {
  pid: number;
  /** Resolves when the process has ended, with the signal that ended it. */
  ended: Promise<string>;
  kill(signal: 'SIGKILL' | 'SIGTERM'): void;
};

/** Starts a worker process for the repository's langgraph.json and waits until it is ready. */
export async function startDemoWorker(env: Record<string, string>): Promise<DemoWorker> {
  const main = fileURLToPath(new URL('../../../dist/workers/main.js', import.meta.url));
  const project = fileURLToPath(new URL('../../../langgraph.json', import.meta.url));
  const child = spawn(process.execPath, [main, '--project', project], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...env },
  });
  let lastWords = '';
  child.stderr.on('data', (chunk: Buffer) => {
    lastWords = (lastWords + chunk.toString()).slice(-2_000);
  });
  const ended = once(child, 'exit').then(([code, signal]) => String(signal ?? `status ${String(code)}`));
  const ready = new Promise<void>((resolve) => {
    createInterface({ input: child.stdout }).on('line', (line) => {
      if (line.includes('"ready":true')) resolve();
    });
  });
  const how = await Promise.race([ready, ended]);
  if (how !== undefined) throw new Error(`The worker ended (${how}) before it was ready. ${lastWords}`);
  return { pid: child.pid ?? 0, ended, kill: (signal) => child.kill(signal) };
}
