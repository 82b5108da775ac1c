import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type { Behaviour } from './behaviour.ts';
import { type Books, type Order, books } from './contracts.ts';

export type PaymentsOptions = {
  databaseUrl: string;
  /** Default: a free one. */
  port?: number;
  /** Default `payments`. A name of its own gives a service of its own, with empty books. */
  schema?: string;
  /** How it acts from the start. Default: well, but without honouring Idempotency-Key. */
  behaviour?: Behaviour;
  /** How long it may take to listen, in ms. Default 30,000. */
  startTimeout?: number;
};

/** A payment service that runs as a child of this process and ends with it, however it ends. */
export type Payments = {
  /** `http://127.0.0.1:PORT` */
  url: string;
  pid: number;
  /** All refunds and messages so far. */
  books(): Promise<Books>;
  /** Changes how it acts; see behaviour.ts. `{}` ends all faults. */
  behave(behaviour: Behaviour): Promise<void>;
  /** Makes an order known; one that is known already stays as it is. */
  addOrder(order: Order): Promise<void>;
  /** Ends it with SIGTERM and waits for its end. Safe to call twice. */
  stop(): Promise<void>;
};

/** Starts the service and waits until it listens. @throws Error with its last words when it doesn't. */
export async function startPayments(options: PaymentsOptions): Promise<Payments> {
  const child = spawn(process.execPath, [...command(), '--end-with-stdin', ...flags(options)], {
    stdio: ['pipe', 'pipe', 'pipe'],
    // By the environment, so that no password shows in the list of processes.
    env: { ...process.env, DATABASE_URL: options.databaseUrl },
  });
  const url = await listening(child, options.startTimeout ?? 30_000);
  letGo(child);
  const pid = child.pid;
  if (pid === undefined) throw new Error('The payment service has no process id.');

  async function post(path: string, body: unknown): Promise<void> {
    const response = await fetch(`${url}${path}`, { method: 'POST', body: JSON.stringify(body) });
    if (!response.ok) throw new Error(`payments ${path}: ${response.status} ${await response.text()}`);
  }

  return {
    url,
    pid,
    async books() {
      const response = await fetch(`${url}/books`);
      return books.parse(await response.json());
    },
    behave: (behaviour) => post('/behaviour', behaviour),
    addOrder: (order) => post('/orders', order),
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.ref();
      const ended = once(child, 'exit');
      child.kill('SIGTERM');
      await ended;
    },
  };
}

/** The arguments with which node runs main, as TypeScript or compiled, whichever this file is. */
function command(): string[] {
  const own = new URL(import.meta.url).pathname;
  if (!own.endsWith('.ts')) return [fileURLToPath(new URL('./main.js', import.meta.url))];
  const tsx = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href;
  return ['--import', tsx, fileURLToPath(new URL('./main.ts', import.meta.url))];
}

function flags({ port = 0, schema, behaviour = {} }: PaymentsOptions): string[] {
  const named = Object.entries(behaviour).flatMap(([name, value]) => {
    const flag = `--${name.replaceAll('_', '-')}`;
    if (value === false) return [];
    if (value === true) return name === 'fail' ? [flag, '500'] : [flag];
    return [flag, typeof value === 'object' ? `${value.status}:${value.reason}` : String(value)];
  });
  return ['--port', String(port), ...(schema === undefined ? [] : ['--schema', schema]), ...named];
}

async function listening(child: ChildProcess, timeout: number): Promise<string> {
  const { stdout, stderr } = child;
  if (stdout === null || stderr === null)
    throw new Error('The payment service was started without its pipes.');
  let words = '';
  stderr.setEncoding('utf8').on('data', (text: string) => (words = (words + text).slice(-2_000)));
  const lines = createInterface({ input: stdout });
  const timer = setTimeout(() => child.kill('SIGKILL'), timeout);
  try {
    const [line] = await Promise.race([
      once(lines, 'line'),
      once(child, 'close').then(() => {
        throw new Error(
          `The payment service did not start: ${words.trim() || `nothing was heard in ${timeout} ms`}`,
        );
      }),
    ]);
    const said: { listening?: unknown } = JSON.parse(String(line));
    if (typeof said.listening !== 'string') throw new Error(`The payment service said: ${String(line)}`);
    return said.listening;
  } finally {
    clearTimeout(timer);
  }
}

/** Lets this process end while the child still runs; its end closes the child's stdin, which ends the child. */
function letGo(child: ChildProcess): void {
  child.unref();
  for (const stream of [child.stdin, child.stdout, child.stderr])
    if (stream instanceof Socket) stream.unref();
}
