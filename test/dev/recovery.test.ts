import { appendFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { down, serverStatus, up } from '../../src/dev/index.ts';
import {
  NO_POSTGRES,
  NO_TEMPORAL,
  occupy,
  processesIn,
  query,
  rewriteRecord,
  settings,
  temporaryHome,
  upInChild,
  upTold,
  writeScript,
} from './homes.ts';

test('servers that were killed are started again with their data', async () => {
  const home = temporaryHome();
  const { servers: first } = await upTold({ home });
  await query(first.databaseUrl, 'CREATE TABLE kept AS SELECT 1 AS one');
  for (const { pid } of [first.postgres, first.temporal]) if (pid !== undefined) process.kill(pid, 'SIGKILL');

  const { servers: second } = await upTold({ home });
  expect([second.postgres.started, second.temporal.started]).toEqual(['now', 'now']);
  expect(second.databaseUrl).toBe(first.databaseUrl);
  expect(await query(second.databaseUrl, 'SELECT one FROM kept')).toEqual([{ one: 1 }]);
});

test('a recorded pid that now belongs to another program is neither believed nor killed', async () => {
  const home = temporaryHome();
  const { servers: first } = await upTold({ home, ...NO_TEMPORAL });
  await down({ home });
  const ours = { pid: process.pid, identity: 'an earlier boot/1' };
  rewriteRecord(home, (record) => {
    record.postgres.process = ours;
    record.temporal.process = ours;
  });
  expect((await serverStatus({ home })).postgres.alive).toBe(false);
  expect((await down({ home })).stopped).toEqual([]);
  rewriteRecord(home, (record) => {
    record.postgres.process = ours;
  });
  const { servers: second } = await upTold({ home, ...NO_TEMPORAL });
  expect(second.postgres.started).toBe('now');
  expect(second.databaseUrl).toBe(first.databaseUrl);
});

test('a postmaster.pid whose pid now belongs to another program does not stop Postgres from starting', async () => {
  const home = temporaryHome();
  await upTold({ home, ...NO_TEMPORAL });
  const { dataDir = '' } = (await serverStatus({ home })).postgres;
  const left = readFileSync(join(dataDir, 'postmaster.pid'), 'utf8');
  await down({ home });
  writeFileSync(join(dataDir, 'postmaster.pid'), left.replace(/^\d+/, String(process.pid)));
  const { servers } = await upTold({ home, ...NO_TEMPORAL });
  expect(servers.postgres.started).toBe('now');
});

test('a lost or damaged record costs neither data nor ports, and leaves no server behind', async () => {
  const home = temporaryHome();
  const { servers: first } = await upTold({ home });
  await query(first.databaseUrl, 'CREATE TABLE kept AS SELECT 1 AS one');
  writeFileSync(join(home, 'servers.json'), '{"format": 1, "postgr');

  const { servers: second, lines } = await upTold({ home });
  expect(lines.join('\n')).toMatch(/was damaged/);
  expect(lines.join('\n')).toMatch(/stopped a Postgres \(pid \d+\)/);
  expect(lines.join('\n')).toMatch(/stopped a Temporal \(pid \d+\)/);
  expect(second.databaseUrl).not.toBe(first.databaseUrl);
  expect(await query(second.databaseUrl, 'SELECT one FROM kept')).toEqual([{ one: 1 }]);

  rmSync(join(home, 'servers.json'));
  expect((await down({ home })).stopped).toHaveLength(2);
  expect(processesIn(home)).toEqual([]);
});

test('a start that is killed half-way leaves nothing that down does not find', async () => {
  const home = temporaryHome();
  const child = upInChild({ home });
  await new Promise<void>((resolve) => {
    child.stderr.on('data', (chunk: Buffer) => {
      if (chunk.toString('utf8').includes('starting Temporal')) resolve();
    });
  });
  while (processesIn(join(home, 'temporal')).length === 0 && child.exitCode === null) await delay(5);
  child.kill('SIGKILL');
  await down({ home });
  expect(processesIn(home)).toEqual([]);
  const { servers } = await upTold({ home });
  expect(await query(servers.databaseUrl, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
});

test('a stale lock is broken, and an initdb that was cut short is done again', async () => {
  const home = temporaryHome();
  mkdirSync(join(home, 'postgres', 'data.unfinished', 'base'), { recursive: true });
  writeFileSync(
    join(home, 'servers.lock'),
    JSON.stringify({ pid: process.pid, identity: 'an earlier boot/1' }),
  );
  const all = await Promise.all([upTold({ home, ...NO_TEMPORAL }), upTold({ home, ...NO_TEMPORAL })]);
  expect(all.map(({ servers }) => servers.postgres.started).sort()).toEqual(['already', 'now']);
  expect(readdirSync(home).filter((name) => name.startsWith('servers.lock'))).toEqual([]);
  expect(readdirSync(join(home, 'postgres'))).toEqual(['data']);
});

test('servers move when somebody else has taken their ports, and stay where they moved to', async () => {
  const home = temporaryHome();
  const { servers: first } = await upTold({ home });
  await down({ home });
  const before = [first.postgres.port, first.temporal.port, first.temporal.uiPort].filter(
    (port) => port !== undefined,
  );
  for (const port of before) await occupy(port);

  const { servers: second } = await upTold({ home });
  const after = [second.postgres.port, second.temporal.port, second.temporal.uiPort].filter(
    (port) => port !== undefined,
  );
  expect(new Set([...before, ...after]).size).toBe(6);
  await down({ home });
  const { servers: third } = await upTold({ home });
  expect([third.postgres.port, third.temporal.port, third.temporal.uiPort]).toEqual(after);
});

test('a server that does not start shows the last lines of its log, and leaves nothing running', async () => {
  const home = temporaryHome();
  await upTold({ home, ...NO_TEMPORAL });
  const { dataDir = '' } = (await serverStatus({ home })).postgres;
  await down({ home });
  appendFileSync(join(dataDir, 'postgresql.conf'), '\nno_such_setting = 1\n');
  const failed = await up({ home, ...settings() }).catch((error: unknown) => error);
  expect(failed).toMatchObject({ code: 'SERVER_START_FAILED' });
  expect(String(failed)).toMatch(/unrecognized configuration parameter "no_such_setting"/);
  expect(processesIn(home)).toEqual([]);
});

test('a Temporal that does not start takes the Postgres of the same start down with it', async () => {
  const home = temporaryHome();
  const { servers } = await upTold({ home, ...NO_TEMPORAL });
  await down({ home });
  const cli = join(home, '..', 'temporal');
  writeScript(
    cli,
    'case "$1" in --version) echo "temporal version 9 (Server 9.9.9)";; *) echo "no disk left"; exit 1;; esac',
  );
  const failed = await up({ home, temporalCli: cli }).catch((error: unknown) => error);
  expect(failed).toMatchObject({ code: 'SERVER_START_FAILED' });
  expect(String(failed)).toMatch(/no disk left/);
  expect(processesIn(home)).toEqual([]);
  await expect(query(servers.databaseUrl, 'SELECT 1')).rejects.toThrow();
});

test('a Temporal that hangs is reported, not started twice, and down stops it all the same', async () => {
  const home = temporaryHome();
  const { servers } = await upTold({ home, ...NO_POSTGRES });
  process.kill(servers.temporal.pid ?? 0, 'SIGSTOP');
  const failed = await up({ home, ...NO_POSTGRES, ...settings() }).catch((error: unknown) => error);
  expect(String(failed)).toMatch(/runs \(pid \d+\) but does not answer.*perdure down/s);
  expect((await down({ home })).stopped).toEqual([{ name: 'temporal', pid: servers.temporal.pid }]);
});
