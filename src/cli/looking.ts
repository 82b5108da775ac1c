import { openDatabase, type Database } from '../postgres/database.ts';
import { requireDatabaseUrl } from './project-context.ts';
import type { Session } from './session.ts';

/** For commands that only look: Postgres alone, started by nobody here. @throws PerdureError NOT_RUNNING */
export async function withDatabase<T>(session: Session, work: (database: Database, tenant: string) => Promise<T>): Promise<T> {
  const { config } = await session.settings();
  const database = openDatabase({ connectionString: await requireDatabaseUrl(config), schema: config.schema, max: 2 });
  try {
    return await work(database, config.tenant);
  } finally {
    await database.close();
  }
}
