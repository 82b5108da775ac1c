import { openDatabase, type Database } from '../postgres/database.ts';
import { requireDatabaseUrl } from './project-context.ts';
import type { Session } from './session.ts';

/** For commands that only look: Postgres alone, started by nobody here. @throws PerdureError NOT_RUNNING */
export async function withDatabase<T>(
  session: Session,
  work: (database: Database, tenant: string) => Promise<T>,
): Promise<T> {
  const { config } = await session.settings();
  const databaseUrl = await requireDatabaseUrl(config);
  return atDatabase({ databaseUrl, schema: config.schema }, (database) => work(database, config.tenant));
}

/** Opens the database, and closes it when the work is done. */
export async function atDatabase<T>(
  { databaseUrl, schema }: { databaseUrl: string; schema: string },
  work: (database: Database) => Promise<T>,
): Promise<T> {
  const database = openDatabase({ connectionString: databaseUrl, schema, max: 2 });
  try {
    return await work(database);
  } finally {
    await database.close();
  }
}
