import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { inject } from 'vitest';
import { identityOf } from '../../src/dev/processes.ts';

const MAIN = fileURLToPath(new URL('../../dist/src/cli/main.js', import.meta.url));
const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** How a command ended. `json` is its one document; reading it fails when stdout holds anything else. */
export type Ended = { status: number | null; stdout: string; stderr: string; json: Record<string, unknown> };

export type Started = { child: ChildProcess; ended: Promise<Ended> };

type Options = { env?: Record<string, string>; cwd?: string; stdin?: string };

/** A made-up project in a folder of its own, and the built command in it. */
export type TestProject = {
  folder: string;
  env: Record<string, string>;
  write(file: string, content: string): void;
  start(args: string[], options?: Options): Started;
  perdure(args: string[], options?: Options): Promise<Ended>;
  /** Stops its workers and servers, drops its schema, removes its folder. */
  remove(): Promise<void>;
};

export const GRAPHS = `
import { Annotation, END, interrupt, START, StateGraph } from '@langchain/langgraph';
import { z } from 'zod';

console.log('a graph may print when it is loaded');

const asked = z.object({ name: z.string(), greeting: z.string().optional(), answer: z.any() });
export const ask = new StateGraph(asked)
  .addNode('write', ({ name }) => ({ greeting: 'hello ' + name }))
  .addNode('approve', ({ greeting }) => ({ answer: interrupt({ question: 'send ' + greeting }) }))
  .addEdge(START, 'write').addEdge('write', 'approve').addEdge('approve', END)
  .compile();

const counted = Annotation.Root({ n: Annotation<number> });
export const fails = new StateGraph(counted)
  .addNode('boom', (): { n: number } => { throw Object.assign(new Error('no such luck'), { retryable: false }); })
  .addEdge(START, 'boom').addEdge('boom', END)
  .compile();

export const slow = new StateGraph(counted)
  .addNode('wait', async ({ n }) => { await new Promise((done) => setTimeout(done, n)); return { n: 0 }; })
  .addEdge(START, 'wait').addEdge('wait', END)
  .compile();

export const stops = new StateGraph(counted)
  .addNode('before', ({ n }) => ({ n: n + 1 })).addNode('after', ({ n }) => ({ n: n * 10 }))
  .addEdge(START, 'before').addEdge('before', 'after').addEdge('after', END)
  .compile({ interruptBefore: ['after'] });
`;

/** Plain JavaScript; how it computes is in the file, so that an edit shows. */
export const double = (code = 'n * 2') => `
import { Annotation, END, START, StateGraph } from '@langchain/langgraph';
const state = Annotation.Root({ n: Annotation() });
export default new StateGraph(state).addNode('compute', ({ n }) => ({ n: ${code} }))
  .addEdge(START, 'compute').addEdge('compute', END).compile();
`;

export const LANGGRAPH_JSON = JSON.stringify({
  graphs: {
    ask: './graphs.ts:ask',
    fails: './graphs.ts:fails',
    slow: './graphs.ts:slow',
    stops: './graphs.ts:stops',
    double: './double.mjs',
  },
});

/** The names of the graphs in LANGGRAPH_JSON. */
export const GRAPH_NAMES = ['ask', 'fails', 'slow', 'stops', 'double'];

/** @param servers `shared`: those of the test run, with a schema of its own; `own`: embedded in its home. */
export function makeProject(name: string, servers: 'shared' | 'own' = 'shared'): TestProject {
  const folder = mkdtempSync(join(tmpdir(), `perdure cli ${name} `));
  // Else the user that Postgres runs as could not reach a home in it.
  chmodSync(folder, 0o755);
  // As an installation has it: perdure beside what else the graphs import.
  mkdirSync(join(folder, 'node_modules'));
  symlinkSync(ROOT, join(folder, 'node_modules/perdure'));
  for (const found of ['@langchain', 'zod'])
    symlinkSync(join(ROOT, 'node_modules', found), join(folder, 'node_modules', found));
  const schema = `cli_${name}_${Math.random().toString(36).slice(2, 8)}`;
  const env: Record<string, string> = {
    PERDURE_SCHEMA: schema,
    USER: 'mira',
    ...(servers === 'shared' ? sharedServers() : {}),
  };
  const write = (file: string, content: string) => writeFileSync(join(folder, file), content);
  write('package.json', '{"type":"module"}');
  write('graphs.ts', GRAPHS);
  write('double.mjs', double());
  write('langgraph.json', LANGGRAPH_JSON);
  const start = (args: string[], options: Options = {}) =>
    startPerdure(args, { cwd: folder, ...options, env: { ...env, ...options.env } });
  const perdure = (args: string[], options: Options = {}) => start(args, options).ended;
  return {
    folder,
    env,
    write,
    start,
    perdure,
    async remove() {
      write('langgraph.json', LANGGRAPH_JSON);
      const { status, stderr } = await perdure(['down']);
      if (servers === 'shared')
        await onDatabase((client) => client.query(`DROP SCHEMA IF EXISTS "${schema}" CASCADE`));
      if (status !== 0) throw new Error(`perdure down: ${stderr}`);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** How many rows each table of the project's schema has. */
export async function countRows(project: TestProject): Promise<Record<string, number>> {
  return onDatabase(async (client) => {
    const counts: Record<string, number> = {};
    for (const name of [
      'graph_versions',
      'threads',
      'runs',
      'interrupts',
      'operations',
      'checkpoints',
      'checkpoint_writes',
    ]) {
      const { rows } = await client.query<{ count: number }>(
        `SELECT count(*)::int AS count FROM "${project.env['PERDURE_SCHEMA']}"."${name}"`,
      );
      counts[name] = rows[0]?.count ?? -1;
    }
    return counts;
  });
}

export async function onDatabase<T>(work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: inject('databaseUrl') });
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

export function errorOf({ json }: Ended): {
  code: string;
  message: string;
  details: Record<string, unknown>;
} {
  return json['error'] as { code: string; message: string; details: Record<string, unknown> };
}

/** Looks until `look` gives a value. */
export async function until<T>(look: () => Promise<T | undefined>, limitMs = 60_000): Promise<T> {
  const end = Date.now() + limitMs;
  for (;;) {
    const value = await look();
    if (value !== undefined) return value;
    if (Date.now() > end) throw new Error('it did not come true in time');
    await new Promise((done) => setTimeout(done, 100));
  }
}

/** A process that has ended, but that nobody has asked for its status, does not count. */
export async function isRunning(pid: number): Promise<boolean> {
  return (await identityOf(pid)) !== undefined;
}

function sharedServers() {
  return { DATABASE_URL: inject('databaseUrl'), TEMPORAL_ADDRESS: inject('temporalAddress') };
}

function startPerdure(
  args: string[],
  options: Options & { env: Record<string, string>; cwd: string },
): Started {
  const child = spawn(process.execPath, [MAIN, ...args], {
    cwd: options.cwd,
    env: { ...baseEnvironment(), ...options.env },
    stdio: 'pipe',
  });
  // A command that does not read its input may have ended before it comes.
  child.stdin.on('error', () => undefined);
  child.stdin.end(options.stdin ?? '');
  const ended = Promise.all([once(child, 'close'), text(child.stdout), text(child.stderr)]).then(
    ([, stdout, stderr]) => ({
      status: child.exitCode,
      stdout,
      stderr,
      get json() {
        try {
          return JSON.parse(stdout) as Record<string, unknown>;
        } catch (error) {
          throw new Error(`stdout is not one JSON document: ${stdout}\nstderr: ${stderr}`, { cause: error });
        }
      },
    }),
  );
  return { child, ended };
}

/** Nothing of the developer's own settings, but what finds programs and caches. */
function baseEnvironment(): NodeJS.ProcessEnv {
  return Object.fromEntries(
    Object.entries(process.env).filter(([name]) =>
      ['PATH', 'HOME', 'PERDURE_CACHE', 'PERDURE_TEMPORAL_CLI', 'XDG_CACHE_HOME', 'TMPDIR'].includes(name),
    ),
  );
}
