import { quoteIdentifier, type Database } from './database.ts';

/**
 * The tables of an installation as readable SQL, LangGraph's included, sorted and without the schema's name: equal for
 * equal schemas, whatever they are called and in whichever order they were made. For people and for comparing, not
 * for loading.
 */
export async function dumpSchema(database: Database): Promise<string> {
  return database.transaction(async (client) => {
    // What lies in the search path is printed without its schema.
    await client.query(`SET LOCAL search_path TO ${quoteIdentifier(database.schema)}`);
    const columns = await client.query<Column>(COLUMNS, [database.schema]);
    const constraints = await client.query<Part>(CONSTRAINTS, [database.schema]);
    const indexes = await client.query<Part>(INDEXES, [database.schema]);
    const tables = [...new Set(columns.rows.map((column) => column.table))];
    return `${HEAD}\n${tables
      .map((table) => {
        const options = columns.rows.find((column) => column.table === table)?.options;
        const inside = [
          ...columns.rows.filter((column) => column.table === table).map(columnText),
          ...partsOf(table, constraints.rows),
        ];
        const with_ = options ? ` WITH (${options})` : '';
        const after = partsOf(table, indexes.rows).map((definition) => `${definition};\n`);
        return `CREATE TABLE ${table} (\n  ${inside.join(',\n  ')}\n)${with_};\n${after.join('')}`;
      })
      .join('\n')}`;
  });
}

const HEAD = `-- All tables after every migration, as \`node --import tsx scripts/write-schema.ts\` writes them. A test compares
-- this file with a fresh schema; it is for reading, and nothing loads it.
`;

type Column = {
  table: string;
  name: string;
  type: string;
  required: boolean;
  generated: string;
  fallback: string | null;
  options: string | null;
};
type Part = { table: string; definition: string };

function columnText({ name, type, required, generated, fallback }: Column): string {
  return [
    quoteIfNeeded(name),
    type,
    generated === 'a' ? 'GENERATED ALWAYS AS IDENTITY' : '',
    fallback === null ? '' : `DEFAULT ${fallback}`,
    required ? 'NOT NULL' : '',
  ]
    .filter((part) => part !== '')
    .join(' ');
}

function partsOf(table: string, parts: readonly Part[]): string[] {
  return parts.filter((part) => part.table === table).map((part) => part.definition);
}

function quoteIfNeeded(name: string): string {
  return /^[a-z_][a-z0-9_]*$/.test(name) ? name : quoteIdentifier(name);
}

const COLUMNS = `
  SELECT c.relname AS table, a.attname AS name, format_type(a.atttypid, a.atttypmod) AS type, a.attnotnull AS required,
    a.attidentity AS generated, pg_get_expr(d.adbin, d.adrelid, true) AS fallback, array_to_string(c.reloptions, ', ') AS options
  FROM pg_class c
  JOIN pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
  LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
  WHERE n.nspname = $1 AND c.relkind = 'r'
  ORDER BY c.relname COLLATE "C", a.attnum`;

/** Postgres 18 lists NOT NULL as constraints too; those are shown with their columns. */
const CONSTRAINTS = `
  SELECT c.relname AS table, pg_get_constraintdef(k.oid, true) AS definition
  FROM pg_constraint k
  JOIN pg_class c ON c.oid = k.conrelid
  JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname = $1 AND k.contype <> 'n'
  ORDER BY c.relname COLLATE "C", position(k.contype::text IN 'pufc'), 2`;

const INDEXES = `
  SELECT c.relname AS table, pg_get_indexdef(i.indexrelid, 0, true) AS definition
  FROM pg_index i
  JOIN pg_class c ON c.oid = i.indrelid
  JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname = $1 AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = i.indexrelid)
  ORDER BY c.relname COLLATE "C", 2`;
