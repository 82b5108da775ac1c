// Writes migrations/schema.sql from a fresh schema. Usage: DATABASE_URL=... node --import tsx scripts/write-schema.ts
import { randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { openDatabase, quoteIdentifier } from '../src/postgres/database.ts';
import { migrate } from '../src/postgres/migrate.ts';
import { dumpSchema } from '../src/postgres/schema-dump.ts';

const connectionString = process.env['DATABASE_URL'];
if (connectionString === undefined)
  throw new Error('DATABASE_URL: name a Postgres; a schema is made in it and dropped.');
const database = openDatabase({ connectionString, schema: `write_schema_${randomUUID().slice(0, 8)}` });
try {
  await migrate(database);
  await writeFile(new URL('../migrations/schema.sql', import.meta.url), await dumpSchema(database));
} finally {
  await database.query(`DROP SCHEMA IF EXISTS ${quoteIdentifier(database.schema)} CASCADE`);
  await database.close();
}
