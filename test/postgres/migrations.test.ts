import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { PostgresSaver } from '@langchain/langgraph-checkpoint-postgres';
import pg from 'pg';
import { afterAll, expect, inject, test } from 'vitest';
import { openDatabase, quoteIdentifier, type Database } from '../../src/postgres/database.ts';
import { migrate, readMigrations } from '../../src/postgres/migrate.ts';
import { dumpSchema } from '../../src/postgres/schema-dump.ts';

const opened: Database[] = [];
const children: ChildProcess[] = [];
afterAll(async () => {
  for (const child of children) child.kill();
  for (const database of opened) {
    await database
      .query(`DROP SCHEMA IF EXISTS ${quoteIdentifier(database.schema)} CASCADE`)
      .catch(() => undefined);
    await database.close();
  }
});

function open(schema = `m_${randomUUID().slice(0, 8)}`, connectionString = inject('databaseUrl')): Database {
  const database = openDatabase({ connectionString, schema });
  opened.push(database);
  return database;
}

const tables = async (database: Database) => {
  const { rows } = await database.query<{ name: string }>(
    'SELECT table_name AS name FROM information_schema.tables WHERE table_schema = $1 ORDER BY 1',
    [database.schema],
  );
  return rows.map(({ name }) => name);
};

test('a fresh schema is what migrations/schema.sql says', async () => {
  const database = open();
  await migrate(database);
  const golden = await readFile(new URL('../../migrations/schema.sql', import.meta.url), 'utf8');
  // When a migration was added: node --import tsx scripts/write-schema.ts
  expect(await dumpSchema(database)).toBe(golden);
});

test('every migration is applied once, in order, and a second call finds nothing to do', async () => {
  const database = open();
  const names = (await readMigrations()).map(({ name }) => name);
  expect(names).toEqual(names.toSorted());
  expect(await migrate(database)).toEqual({ schema: database.schema, applied: names, present: [] });
  const before = await dumpSchema(database);
  expect(await migrate(database)).toEqual({ schema: database.schema, applied: [], present: names });
  expect(await dumpSchema(database)).toBe(before);
});

test.each([
  'Team-A',
  'mit Leerzeichen',
  'UPPER',
  'select',
  "o'hara",
  'Übung 🦊',
  'a;drop schema public',
  'x'.repeat(63),
])('a schema may be called %j', async (name) => {
  const database = open(name.length === 63 ? name : `${name} ${randomUUID().slice(0, 4)}`);
  await migrate(database);
  expect(await tables(database)).toEqual(
    expect.arrayContaining(['checkpoints', 'runs', 'threads', 'operations', 'perdure_migrations']),
  );
  const golden = await readFile(new URL('../../migrations/schema.sql', import.meta.url), 'utf8');
  expect(await dumpSchema(database)).toBe(golden);
});

test.each([
  ['an empty name', ''],
  ['a name that Postgres would cut', 'x'.repeat(64)],
  ['NUL', 'a\u0000'],
  ['a double quote', 'a"b'],
])('a schema may not have %s', (_, name) => {
  expect(() => openDatabase({ connectionString: inject('databaseUrl'), schema: name })).toThrow(
    /PERDURE_SCHEMA/,
  );
});

test('a migration whose file was edited after it was applied is refused, and nothing is changed', async () => {
  const database = open();
  await migrate(database);
  await database.query(
    `UPDATE ${database.table('perdure_migrations')} SET checksum = 'other' WHERE name = '000001_runtime'`,
  );
  const before = await dumpSchema(database);
  await expect(migrate(database)).rejects.toMatchObject({
    code: 'MIGRATION_CHANGED',
    details: { migration: '000001_runtime' },
  });
  expect(await dumpSchema(database)).toBe(before);
});

test('a database that the shipped saver set up is taken over with its checkpoints', async () => {
  const database = open();
  const shipped = new PostgresSaver(database.pool, undefined, { schema: database.schema });
  await shipped.setup();
  const checkpoint = {
    v: 4,
    id: '1ef4f797-8335-6428-8001-8a1503f9b875',
    ts: new Date(0).toISOString(),
    channel_values: {},
    channel_versions: {},
    versions_seen: {},
  };
  await shipped.put(
    { configurable: { thread_id: 't', checkpoint_ns: '' } },
    checkpoint,
    { source: 'input', step: -1, parents: {} },
    {},
  );
  await migrate(database);
  const golden = await readFile(new URL('../../migrations/schema.sql', import.meta.url), 'utf8');
  expect(await dumpSchema(database)).toBe(golden);
  expect((await shipped.getTuple({ configurable: { thread_id: 't' } }))?.checkpoint.id).toBe(checkpoint.id);
});

test('a migration that fails leaves nothing of itself, and the next call applies it', async () => {
  const database = open();
  await database.query(`CREATE SCHEMA ${quoteIdentifier(database.schema)}`);
  // In the way of the first migration's last table.
  await database.query(`CREATE VIEW ${database.table('workers')} AS SELECT 1 AS one`);
  await expect(migrate(database)).rejects.toThrow(/workers/);
  expect(await tables(database)).not.toContain('threads');
  await database.query(`DROP VIEW ${database.table('workers')}`);
  expect((await migrate(database)).applied).toHaveLength((await readMigrations()).length);
});

test('E20: eight processes that set up an empty database at once all succeed, and each migration is applied once', async () => {
  const name = `perdure_test_${randomUUID().replaceAll('-', '').slice(0, 12)}`;
  const admin = new pg.Client({ connectionString: inject('databaseUrl') });
  await admin.connect();
  await admin.query(`CREATE DATABASE ${name}`);
  try {
    const url = new URL(inject('databaseUrl'));
    url.pathname = `/${name}`;
    const lines = await Promise.all(Array.from({ length: 8 }, () => startChild(url.href)));
    for (const child of lines) child.go();
    const reports = await Promise.all(lines.map((child) => child.report));
    const applied = reports.flatMap((report) => report.applied);
    const names = (await readMigrations()).map((migration) => migration.name);
    expect(applied).toEqual(names);
    const database = openDatabase({ connectionString: url.href, schema: 'Team-A' });
    const golden = await readFile(new URL('../../migrations/schema.sql', import.meta.url), 'utf8');
    expect(await dumpSchema(database)).toBe(golden);
    await database.close();
  } finally {
    await admin.query(`DROP DATABASE ${name} WITH (FORCE)`);
    await admin.end();
  }
});

type Child = { go(): void; report: Promise<{ applied: string[] }> };

async function startChild(url: string): Promise<Child> {
  const file = fileURLToPath(new URL('migrate-child.ts', import.meta.url));
  const child = spawn(process.execPath, ['--import', 'tsx', file, url, 'Team-A'], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  children.push(child);
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  expect((await lines.next()).value).toBe('ready');
  return {
    go: () => child.stdin.end('go\n'),
    report: lines.next().then(({ value }) => JSON.parse(String(value)) as { applied: string[] }),
  };
}
