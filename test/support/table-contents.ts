import type { Database } from '../../src/postgres/database.ts';

/** Tables whose rows change by themselves: workers report as alive. */
const ALIVE = new Set(['workers']);

/** Every row of every table of the installation, as text: equal before and after when nothing was written. */
export async function tableContents(database: Database): Promise<Record<string, string[]>> {
  const { rows: tables } = await database.query<{ name: string }>(
    `SELECT table_name AS name FROM information_schema.tables WHERE table_schema = $1 AND table_type = 'BASE TABLE' ORDER BY 1`,
    [database.schema],
  );
  const contents: Record<string, string[]> = {};
  for (const { name } of tables) {
    if (ALIVE.has(name)) continue;
    const { rows } = await database.query<{ row: string }>(
      `SELECT t::text AS row FROM ${database.table(name)} t ORDER BY 1`,
    );
    contents[name] = rows.map(({ row }) => row);
  }
  return contents;
}
