// One of several processes that set up the same schema at once: `node --import tsx migrate-child.ts URL SCHEMA`.
import { openDatabase } from '../../src/postgres/database.ts';
import { migrate } from '../../src/postgres/migrate.ts';

const [connectionString = '', schema = ''] = process.argv.slice(2);
const database = openDatabase({ connectionString, schema, max: 3 });
// All begin at the same moment: when the test says so.
process.stdout.write('ready\n');
await new Promise<void>((resolve) => process.stdin.once('data', () => resolve()));
try {
  const report = await migrate(database);
  process.stdout.write(`${JSON.stringify(report)}\n`);
} finally {
  await database.close();
  process.stdin.unref();
}
