import { readdir, readFile } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { createHash } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { PostgresSaver } from '@langchain/langgraph-checkpoint-postgres';
import pg from 'pg';
import { PerdureError } from '../contracts/errors.ts';
import { quoteIdentifier, type Database } from './database.ts';
import { storageError } from './failures.ts';

export type Migration = { name: string; sql: string; checksum: string };
export type MigrationReport = { schema: string; applied: string[]; present: string[] };

/** Where migrations/ lies, seen from src/postgres and from dist/src/postgres. */
function migrationsFolder(): string {
  const candidates = ['../../migrations/', '../../../migrations/'].map(
    (path) => new URL(path, import.meta.url),
  );
  const found = candidates.find((url) => existsSync(url));
  if (!found)
    throw new PerdureError(
      'MIGRATIONS_MISSING',
      'The folder migrations/ is missing from this installation of perdure.',
    );
  return fileURLToPath(found);
}

export async function readMigrations(): Promise<Migration[]> {
  const folder = migrationsFolder();
  const names = (await readdir(folder)).filter((name) => /^\d{6}_\w+\.sql$/.test(name)).sort();
  return Promise.all(
    names.map(async (name) => {
      const sql = await readFile(`${folder}/${name}`, 'utf8');
      return {
        name: name.replace(/\.sql$/, ''),
        sql,
        checksum: createHash('sha256').update(sql).digest('hex'),
      };
    }),
  );
}

/**
 * Brings the schema up to date: LangGraph's own tables first, then migrations/ in order, each in one transaction,
 * all under an advisory lock, so that any number of processes may call it at once.
 * @throws PerdureError MIGRATION_CHANGED when an applied migration's file was edited since.
 */
export async function migrate(database: Database): Promise<MigrationReport> {
  const migrations = await readMigrations();
  // A connection of its own: it holds the lock while LangGraph's set-up takes another from the pool.
  const client = new pg.Client({
    ...database.pool.options,
    application_name: 'perdure-migrate',
    // It waits for its turn, and a migration takes as long as it takes.
    query_timeout: 0,
  });
  client.on('error', () => undefined);
  try {
    await client.connect();
    await client.query('SELECT pg_advisory_lock(hashtextextended($1, 0))', [
      `perdure:migrate:${database.schema}`,
    ]);
    return await applyAll(client, database, migrations);
  } catch (error) {
    throw storageError(error);
  } finally {
    // The lock is the session's and goes with it.
    await client.end().catch(() => undefined);
  }
}

async function applyAll(
  client: pg.Client,
  database: Database,
  migrations: Migration[],
): Promise<MigrationReport> {
  const known = database.table('perdure_migrations');
  // Eight processes that do this at once would trip over each other: we hold the lock here.
  await client.query(`CREATE SCHEMA IF NOT EXISTS ${quoteIdentifier(database.schema)}`);
  await client.query(
    `CREATE TABLE IF NOT EXISTS ${known} (name text PRIMARY KEY, checksum text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())`,
  );
  await new PostgresSaver(database.pool, undefined, { schema: database.schema }).setup();
  const { rows } = await client.query<{ name: string; checksum: string }>(
    `SELECT name, checksum FROM ${known}`,
  );
  const present = new Map(rows.map((row) => [row.name, row.checksum]));
  const applied: string[] = [];
  for (const migration of migrations) {
    const checksum = present.get(migration.name);
    if (checksum !== undefined) {
      if (checksum !== migration.checksum)
        throw new PerdureError(
          'MIGRATION_CHANGED',
          `Migration ${migration.name} was applied to schema '${database.schema}' and its file was edited since. Put the file back and write a new migration.`,
          { migration: migration.name },
        );
      continue;
    }
    await applyOne(client, database, known, migration);
    applied.push(migration.name);
  }
  return { schema: database.schema, applied, present: [...present.keys()].sort() };
}

async function applyOne(
  client: pg.Client,
  database: Database,
  known: string,
  migration: Migration,
): Promise<void> {
  await client.query('BEGIN');
  try {
    await client.query(`SET LOCAL search_path TO ${quoteIdentifier(database.schema)}`);
    await client.query(migration.sql);
    await client.query(`INSERT INTO ${known} (name, checksum) VALUES ($1, $2)`, [
      migration.name,
      migration.checksum,
    ]);
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK');
    throw error;
  }
}
