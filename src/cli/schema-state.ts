import type { Database } from '../postgres/database.ts';
import { migrate, readMigrations } from '../postgres/migrate.ts';
import { isMissingTable } from './exit-status.ts';

/** Names of migrations that the schema lacks; all of them where it doesn't exist. Changes nothing. */
export async function missingMigrations(database: Database): Promise<string[]> {
  const wanted = (await readMigrations()).map(({ name }) => name);
  try {
    const { rows } = await database.query<{ name: string }>(
      `SELECT name FROM ${database.table('perdure_migrations')}`,
    );
    const present = new Set(rows.map(({ name }) => name));
    return wanted.filter((name) => !present.has(name));
  } catch (error) {
    if (isMissingTable(error)) return wanted;
    throw error;
  }
}

/** Migrates where something is missing: a role that may not create schemas can go on using one that is ready. */
export async function migrateIfNeeded(
  database: Database,
  onProgress: (line: string) => void,
): Promise<string[]> {
  const missing = await missingMigrations(database);
  if (missing.length === 0) return [];
  onProgress(`setting up schema '${database.schema}'`);
  const { applied } = await migrate(database);
  return applied;
}
