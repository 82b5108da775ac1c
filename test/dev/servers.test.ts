import { expect, inject, test } from 'vitest';
import pg from 'pg';

test('the run has a Postgres and a Temporal', async () => {
  const client = new pg.Client({ connectionString: inject('databaseUrl') });
  await client.connect();
  const { rows } = await client.query('SHOW server_encoding');
  await client.end();
  expect(rows).toEqual([{ server_encoding: 'UTF8' }]);
  expect(inject('temporalAddress')).toMatch(/^127\.0\.0\.1:\d+$/);
  expect(process.env['PERDURE_TEST_DATABASE_URL']).toBe(inject('databaseUrl'));
});
