import { once } from 'node:events';
import { readdirSync, readFileSync, readlinkSync, statSync, symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { Client, Connection } from '@temporalio/client';
import { expect, inject, test } from 'vitest';
import { down, serverStatus, up, type RunningServers } from '../../src/dev/index.ts';
import {
  NO_TEMPORAL,
  processesIn,
  query,
  temporaryFolder,
  temporaryHome,
  upInChild,
  upTold,
} from './homes.ts';

async function withClient<T>(address: string, work: (client: Client) => Promise<T>): Promise<T> {
  const connection = await Connection.connect({ address });
  try {
    return await work(new Client({ connection }));
  } finally {
    await connection.close();
  }
}

test('the test run has a Postgres and a Temporal', async () => {
  expect(await query(inject('databaseUrl'), 'SHOW server_encoding')).toEqual([{ server_encoding: 'UTF8' }]);
  await withClient(inject('temporalAddress'), (client) =>
    client.connection.workflowService.getSystemInfo({}),
  );
  expect(process.env['PERDURE_TEST_DATABASE_URL']).toBe(inject('databaseUrl'));
  expect(process.env['PERDURE_TEST_TEMPORAL_ADDRESS']).toBe(inject('temporalAddress'));
});

test('servers keep ports, data and runs in flight across a restart, in a home with an awkward name', async () => {
  const home = temporaryHome('my home #1 50%?');
  const first = await upTold({ home });
  expect(first.servers.postgres).toMatchObject({ started: 'now', version: expect.stringMatching(/^18/) });
  expect(first.servers.temporal.started).toBe('now');
  await query(first.servers.databaseUrl, `CREATE TABLE kept AS SELECT 'still here' AS what`);
  await withClient(first.servers.temporalAddress, (client) =>
    client.workflow.start('waiting', { taskQueue: 'nobody-listens', workflowId: 'in-flight' }),
  );

  const stopped = await down({ home });
  expect(stopped.stopped.map(({ name }) => name).sort()).toEqual(['postgres', 'temporal']);
  expect(processesIn(home)).toEqual([]);

  const second = await upTold({ home });
  expect(second.servers.databaseUrl).toBe(first.servers.databaseUrl);
  expect(second.servers.temporalAddress).toBe(first.servers.temporalAddress);
  expect(second.servers.temporalUiUrl).toBe(first.servers.temporalUiUrl);
  expect(await query(second.servers.databaseUrl, 'SELECT what FROM kept')).toEqual([{ what: 'still here' }]);
  const run = await withClient(second.servers.temporalAddress, (client) =>
    client.workflow.getHandle('in-flight').describe(),
  );
  expect(run.status.name).toBe('RUNNING');
});

test('a second up starts nothing and says what runs; down twice is fine', async () => {
  const home = temporaryHome();
  const { servers: first } = await upTold({ home });
  const { servers: second, lines } = await upTold({ home });
  expect(second).toEqual({
    ...first,
    postgres: { ...first.postgres, started: 'already' },
    temporal: { ...first.temporal, started: 'already' },
  });
  expect(lines).toEqual([]);

  const status = await serverStatus({ home });
  expect(status.postgres).toMatchObject({
    alive: true,
    pid: first.postgres.pid,
    databaseUrl: first.databaseUrl,
  });
  expect(status.temporal).toMatchObject({
    alive: true,
    address: first.temporalAddress,
    uiUrl: first.temporalUiUrl,
  });
  expect((await fetch(first.temporalUiUrl ?? '')).status).toBe(200);

  expect((await down({ home })).stopped).toHaveLength(2);
  expect((await down({ home })).stopped).toEqual([]);
  const after = await serverStatus({ home });
  expect([after.postgres.alive, after.temporal.alive]).toEqual([false, false]);
  expect(after.postgres.databaseUrl).toBeUndefined();
});

test('a home is the same home through a symbolic link', async () => {
  const home = temporaryHome();
  const { servers: first } = await upTold({ home, ...NO_TEMPORAL });
  const link = join(temporaryFolder(), 'link');
  symlinkSync(home, link);
  const { servers: second } = await upTold({ home: link, ...NO_TEMPORAL });
  expect(second.postgres).toMatchObject({ started: 'already', pid: first.postgres.pid });
  expect((await down({ home: link })).stopped).toHaveLength(1);
});

test('servers outlive the process that started them, in a session of their own', async () => {
  const home = temporaryHome();
  const child = upInChild({ home });
  const [output] = await Promise.all([text(child.stdout), once(child, 'exit')]);
  const servers = JSON.parse(output) as RunningServers;
  expect(servers.postgres.started).toBe('now');
  expect(await query(servers.databaseUrl, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
  const status = await serverStatus({ home });
  expect([status.postgres.alive, status.temporal.alive]).toEqual([true, true]);
  if (process.platform === 'linux') {
    for (const pid of [servers.postgres.pid, servers.temporal.pid]) {
      const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
        .replace(/^.*\) /, '')
        .split(' ');
      expect(fields[3]).toBe(String(pid));
    }
  }
});

test('of two starts at the same moment, in one process and in two, one starts and the others report', async () => {
  const home = temporaryHome();
  const child = upInChild({ home, ...NO_TEMPORAL });
  const [here, there, output] = await Promise.all([
    upTold({ home, ...NO_TEMPORAL }),
    upTold({ home, ...NO_TEMPORAL }),
    text(child.stdout),
  ]);
  const all = [here.servers, there.servers, JSON.parse(output) as RunningServers];
  expect(all.map(({ postgres }) => postgres.started).sort()).toEqual(['already', 'already', 'now']);
  expect(new Set(all.map(({ postgres }) => postgres.pid)).size).toBe(1);
  expect([...here.lines, ...there.lines].join('\n')).toMatch(/waiting for process \d+/);
});

test('everything is on the loopback address, and secrets are for the owner alone', async () => {
  const home = temporaryHome();
  const { servers } = await upTold({ home });
  expect(statSync(join(home, 'servers.json')).mode & 0o777).toBe(0o600);
  expect(readFileSync(join(home, '.gitignore'), 'utf8')).toBe('*\n');
  expect(new URL(servers.databaseUrl).password).toMatch(/^[0-9a-f]{48}$/);
  const [listen] = await query(servers.databaseUrl, 'SHOW listen_addresses');
  expect(listen).toEqual({ listen_addresses: '127.0.0.1' });
  expect(await query(servers.databaseUrl, 'SHOW max_connections')).toEqual([{ max_connections: '200' }]);
  expect(await query(servers.databaseUrl, 'SHOW fsync')).toEqual([{ fsync: 'on' }]);
  const wrong = servers.databaseUrl.replace(/:[0-9a-f]{48}@/, ':wrong@');
  await expect(query(wrong, 'SELECT 1')).rejects.toThrow(/password authentication failed/);
  if (process.platform === 'linux') expect(listenersOutsideLoopback(servers.temporal.pid)).toEqual([]);
});

test('given servers are used as they are and nothing is started or written', async () => {
  const home = join(temporaryFolder(), 'never-made');
  const servers = await up({
    home,
    databaseUrl: 'postgres://db.example/x',
    temporalAddress: 'temporal.example:7233',
    temporalNamespace: 'team-a',
  });
  expect(servers).toEqual({
    home,
    databaseUrl: 'postgres://db.example/x',
    temporalAddress: 'temporal.example:7233',
    temporalNamespace: 'team-a',
    postgres: { started: 'external' },
    temporal: { started: 'external' },
  });
  expect(statSync(dirname(home)).isDirectory()).toBe(true);
  expect(statSync(home, { throwIfNoEntry: false })).toBeUndefined();
  expect((await down({ home })).stopped).toEqual([]);
  await expect(up({ home: 'relative/path' })).rejects.toMatchObject({ code: 'INPUT_INVALID' });
});

test('a namespace that the running server does not have is made', async () => {
  const home = temporaryHome();
  await upTold({ home, databaseUrl: 'postgres://unused/' });
  const { servers } = await upTold({ home, databaseUrl: 'postgres://unused/', temporalNamespace: 'team-b' });
  expect(servers.temporal.started).toBe('already');
  const described = await withClient(servers.temporalAddress, (client) =>
    client.connection.workflowService.describeNamespace({ namespace: 'team-b' }),
  );
  expect(described.namespaceInfo?.name).toBe('team-b');
});

/** TCP listeners of this process that are bound to anything but 127.0.0.1, as /proc/net/tcp writes them. */
function listenersOutsideLoopback(pid: number | undefined): string[] {
  const listening = '0A';
  return ['tcp', 'tcp6'].flatMap((table) =>
    readFileSync(`/proc/${pid}/net/${table}`, 'utf8')
      .split('\n')
      .slice(1)
      .map((line) => line.trim().split(/\s+/))
      .filter((fields) => fields[3] === listening && socketsOf(pid).has(fields[9] ?? ''))
      .map((fields) => fields[1] ?? '')
      .filter((address) => !address.startsWith('0100007F:')),
  );
}

function socketsOf(pid: number | undefined): Set<string> {
  const inodes = readdirSync(`/proc/${pid}/fd`).map((fd) => readlinkIfThere(`/proc/${pid}/fd/${fd}`));
  return new Set(inodes.map((target) => /^socket:\[(\d+)\]$/.exec(target)?.[1] ?? ''));
}

function readlinkIfThere(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    // Closed meanwhile.
    return '';
  }
}
