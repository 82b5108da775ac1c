import { createServer } from 'node:net';
import pg from 'pg';
import { afterAll, expect, inject, test } from 'vitest';
import { PerdureSaver } from '../../src/checkpoint/saver.ts';
import { openDatabase, type Database } from '../../src/postgres/database.ts';
import { isUnavailable, storageError } from '../../src/postgres/failures.ts';
import { migrate } from '../../src/postgres/migrate.ts';

const opened: Database[] = [];
afterAll(() => Promise.all(opened.map((database) => database.close())));

function open(
  change: (url: URL) => void = () => {},
  options: { connectionTimeoutMillis?: number; max?: number; statementTimeoutMs?: number } = {},
): Database {
  const url = new URL(inject('databaseUrl'));
  change(url);
  const database = openDatabase({ connectionString: url.href, ...options });
  opened.push(database);
  return database;
}

const unreachable = (url: URL) => {
  url.hostname = '127.0.0.1';
  url.port = '1';
};

const cases: [string, (url: URL) => void, RegExp][] = [
  ['a wrong password', (url) => void (url.password = 'wrong'), /refused the log-in.*password.*DATABASE_URL/],
  [
    'an unknown user',
    (url) => void (url.username = 'nobody-of-that-name'),
    /refused the log-in.*DATABASE_URL/,
  ],
  [
    'an unknown database',
    (url) => void (url.pathname = '/no-such-database'),
    /no such database.*DATABASE_URL/,
  ],
  ['a port where nothing listens', unreachable, /can't be reached.*ECONNREFUSED.*perdure up/],
  ['an unknown host', (url) => void (url.hostname = 'nowhere.invalid'), /can't be reached.*perdure up/],
];

test.each(cases)('%s gives one sentence that helps, whichever call meets it', async (_, change, message) => {
  const database = open(change);
  const expected = { code: 'STORAGE_UNAVAILABLE', message: expect.stringMatching(message) };
  await expect(database.query('SELECT 1')).rejects.toMatchObject(expected);
  await expect(database.transaction(async (client) => client.query('SELECT 1'))).rejects.toMatchObject(
    expected,
  );
  await expect(migrate(database)).rejects.toMatchObject(expected);
});

test('no message holds the password', async () => {
  for (const [, change] of cases) {
    const database = open((url) => {
      url.password = 'my-secret-word';
      change(url);
    });
    await expect(database.query('SELECT 1')).rejects.toThrow(/^((?!my-secret-word).)*$/);
  }
});

test('a server that takes the connection and says nothing is given up', async () => {
  const silent = createServer();
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
  const address = silent.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  const database = open(
    (url) => {
      url.hostname = '127.0.0.1';
      url.port = String(port);
    },
    { connectionTimeoutMillis: 200 },
  );
  await expect(database.query('SELECT 1')).rejects.toMatchObject({ code: 'STORAGE_UNAVAILABLE' });
  silent.close();
});

test('a mistake in a statement stays what it is', async () => {
  const database = open();
  await expect(database.query('SELECT * FROM nothing_of_that_name')).rejects.toMatchObject({ code: '42P01' });
  await expect(database.transaction((client) => client.query('SELECT 1/0'))).rejects.toMatchObject({
    code: '22012',
  });
  await expect(database.query('SELECT 1')).resolves.toMatchObject({ rowCount: 1 });
});

test('an error in a transaction undoes it and leaves the connection usable', async () => {
  const database = open();
  await expect(
    database.transaction(async (client) => {
      await client.query('CREATE TEMP TABLE undone (a int) ON COMMIT PRESERVE ROWS');
      throw new Error('changed my mind');
    }),
  ).rejects.toThrow('changed my mind');
  expect((await database.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }]);
});

test('a connection that the server ends inside a transaction is an outage, and the pool goes on', async () => {
  const database = open();
  const work = database.transaction(async (client) => {
    const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
    await database.query('SELECT pg_terminate_backend($1)', [rows[0]?.pid]);
    // Time for the news to arrive between two statements, where nobody waits for it.
    await new Promise((resolve) => setImmediate(resolve));
    await client.query('SELECT 1');
  });
  await expect(work).rejects.toMatchObject({ code: 'STORAGE_UNAVAILABLE' });
  expect((await database.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }]);
});

test('idle connections that the server ends do no harm to the process', async () => {
  const lost: Error[] = [];
  const database = openDatabase({
    connectionString: inject('databaseUrl'),
    onIdleError: (error) => lost.push(error),
  });
  opened.push(database);
  const { rows } = await database.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
  const admin = new pg.Client({ connectionString: inject('databaseUrl') });
  await admin.connect();
  await admin.query('SELECT pg_terminate_backend($1)', [rows[0]?.pid]);
  await admin.end();
  await expect.poll(() => lost.length).toBe(1);
  expect((await database.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }]);
});

test.each([
  ['57P01', true],
  ['57P03', true],
  ['53300', true],
  ['08006', true],
  ['25006', true],
  ['ECONNRESET', true],
  ['EPIPE', true],
  ['40001', false],
  ['23505', false],
  ['42601', false],
])('an error with the code %s counts as an outage: %s', (code, outage) => {
  const error = Object.assign(new Error('from the server'), { code });
  expect(isUnavailable(error)).toBe(outage);
  expect(isUnavailable(new AggregateError([error]))).toBe(outage);
  const mapped = storageError(error);
  if (outage) expect(mapped).toMatchObject({ code: 'STORAGE_UNAVAILABLE', cause: error });
  else expect(mapped).toBe(error);
  expect(storageError(mapped)).toBe(mapped);
});

test('a pool whose connections are all busy says what to do, after a bounded wait', async () => {
  const database = open(undefined, { max: 1, connectionTimeoutMillis: 50 });
  const busy = await database.pool.connect();
  try {
    const expected = {
      code: 'STORAGE_UNAVAILABLE',
      message: expect.stringMatching(/PERDURE_POOL_SIZE/),
      details: { reason: 'pool_exhausted' },
    };
    await expect(database.query('SELECT 1')).rejects.toMatchObject(expected);
    const transaction = database.transaction(async (client) => client.query('SELECT 1'));
    await expect(transaction).rejects.toMatchObject(expected);
    const saver = new PerdureSaver(database, { retryForMs: 0 });
    await expect(saver.getTuple({ configurable: { thread_id: 't' } })).rejects.toMatchObject(expected);
  } finally {
    busy.release();
  }
  await expect(database.query('SELECT 1')).resolves.toMatchObject({ rowCount: 1 });
});

test('a statement that is not answered in time is given up, and its connection with it', async () => {
  const database = open(undefined, { max: 1, statementTimeoutMs: 100 });
  await expect(database.query('SELECT pg_sleep(1)')).rejects.toMatchObject({
    code: 'STORAGE_UNAVAILABLE',
    message: expect.stringMatching(/PERDURE_STATEMENT_TIMEOUT_MS/),
    details: { reason: 'statement_timeout' },
  });
  await expect(database.query('SELECT 1')).resolves.toMatchObject({ rowCount: 1 });
});
