import { Annotation, interrupt, START, StateGraph } from '@langchain/langgraph';
import pg from 'pg';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { removeHome, up } from '../../src/dev/index.ts';
import { join } from 'node:path';
import { rm } from 'node:fs/promises';
import { makeRunFolder } from '../dev/run-folders.ts';
import { eventually, until } from '../support/eventually.ts';
import { openInstallation, type Installation } from '../support/installation.ts';

const State = Annotation.Root({
  key: Annotation<string>(),
  log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
});

const entered: string[] = [];
const held = new Map<string, () => void>();
let holding = true;
const node =
  (name: string) =>
  async ({ key }: { key: string }) => {
    entered.push(`${key} ${name}`);
    if (holding) await new Promise<void>((resolve) => held.set(`${key} ${name}`, resolve));
    return { log: [name] };
  };
const graph = new StateGraph(State)
  .addNode('a', node('a'))
  .addNode('b', node('b'))
  .addNode('ask', () => ({ log: [String(interrupt('go on?'))] }))
  .addNode('c', node('c'))
  .addEdge(START, 'a')
  .addEdge('a', 'b')
  .addEdge('b', 'ask')
  .addEdge('ask', 'c')
  .compile();

/** A Postgres of this file's own, which may be killed; Temporal is the one of the test run. */
let home: string;
let at: Installation;
let admin: pg.Client;
const startPostgres = () => up({ home, temporalAddress: inject('temporalAddress') });
beforeAll(async () => {
  const folder = makeRunFolder(Number(process.env['PERDURE_TEST_RUN'] ?? process.pid), 0o755);
  home = join(folder, '.perdure');
  const servers = await startPostgres();
  at = await openInstallation('away', servers);
  await at.startWorker({ graph });
  admin = await adminOf(servers.databaseUrl);
});
afterAll(async () => {
  for (const letGo of held.values()) letGo();
  await at.close();
  await admin.end().catch(() => undefined);
  await removeHome({ home });
  await rm(join(home, '..'), { recursive: true, force: true });
});

async function adminOf(connectionString: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString, application_name: 'admin' });
  client.on('error', () => undefined);
  await client.connect();
  return client;
}

/** Ends every connection of perdure, idle or in use. @returns how many there were. */
async function endConnections(): Promise<number> {
  const { rowCount } = await admin.query(
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'perdure%'`,
  );
  return rowCount ?? 0;
}

async function start() {
  const key = crypto.randomUUID();
  return { key, ...(await at.client.startRun({ graph: 'graph', input: { key, log: [] } })) };
}
const letGo = async (place: string) => (await eventually(() => held.get(place)))();
const times = (key: string) =>
  entered.filter((one) => one.startsWith(key)).map((one) => one.slice(key.length + 1));

test('E21: connections that the server ends between and in nodes do no harm: each node runs once', async () => {
  const { key, run_id, thread_id } = await start();
  for (const name of ['a', 'b']) {
    await until(() => held.has(`${key} ${name}`));
    expect(await endConnections()).toBeGreaterThan(0);
    await letGo(`${key} ${name}`);
  }
  const asked = await at.client.waitForRun(run_id);
  expect(asked.interrupts).toMatchObject([{ value: 'go on?' }]);
  await endConnections();
  const { run_id: answer } = await eventually(() => at.client.answer(thread_id, 'yes'));
  await letGo(`${key} c`);
  expect(await at.client.waitForRun(answer)).toMatchObject({
    status: 'success',
    values: { log: ['a', 'b', 'yes', 'c'] },
  });
  expect(times(key)).toEqual(['a', 'b', 'c']);
});

test('E21: connections that are ended all the time delay thirty runs, and harm none', async () => {
  holding = false;
  const runs = await Promise.all(Array.from({ length: 30 }, start));
  const disturbing = setInterval(() => void endConnections(), 100);
  const results = await Promise.all(runs.map(({ run_id }) => at.client.waitForRun(run_id)));
  clearInterval(disturbing);
  holding = true;
  expect(new Set(results.map(({ status }) => status))).toEqual(new Set(['interrupted']));
  for (const { thread_id } of runs)
    expect(await at.client.thread(thread_id)).toMatchObject({ pending_interrupts: 1, unfinished_runs: 0 });
});

test('E21: Postgres is killed and started again in the middle of a run: the worker lives, the run goes on', async () => {
  const { key, run_id, thread_id } = await start();
  await until(() => held.has(`${key} a`));
  const waiting = at.client.waitForRun(run_id);
  const { rows } = await admin.query<{ pid: string }>(
    `SELECT split_part(pg_read_file('postmaster.pid'), E'\\n', 1) AS pid`,
  );
  process.kill(Number(rows[0]?.pid), 'SIGKILL');
  await letGo(`${key} a`);
  const servers = await startPostgres();
  admin = await adminOf(servers.databaseUrl);
  await letGo(`${key} b`);
  expect((await waiting).interrupts).toMatchObject([{ value: 'go on?' }]);
  const { run_id: answer } = await at.client.answer(thread_id, 'yes');
  await letGo(`${key} c`);
  expect(await at.client.waitForRun(answer)).toMatchObject({
    status: 'success',
    values: { log: ['a', 'b', 'yes', 'c'] },
  });
  expect(times(key)).toEqual(['a', 'b', 'c']);
});

test('a run that is asked for while Postgres is away is refused with a sentence that helps', async () => {
  const { rows } = await admin.query<{ pid: string }>(
    `SELECT split_part(pg_read_file('postmaster.pid'), E'\\n', 1) AS pid`,
  );
  process.kill(Number(rows[0]?.pid), 'SIGKILL');
  await until(
    async () =>
      !(await admin.query('SELECT 1').then(
        () => true,
        () => false,
      )),
  );
  await expect(start()).rejects.toMatchObject({
    code: 'STORAGE_UNAVAILABLE',
    message: expect.stringContaining("can't be reached"),
  });
  admin = await adminOf((await startPostgres()).databaseUrl);
  holding = false;
  expect(await at.client.waitForRun((await start()).run_id)).toMatchObject({ status: 'interrupted' });
});
