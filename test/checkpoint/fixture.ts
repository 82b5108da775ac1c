import { randomUUID } from 'node:crypto';
import { afterAll, inject } from 'vitest';
import type { Attempt, BoundSaver, PerdureSaver } from '../../src/checkpoint/saver.ts';
import { openDatabase, quoteIdentifier, type Database } from '../../src/postgres/database.ts';
import { migrate } from '../../src/postgres/migrate.ts';

const open = new Set<Database>();

/** A database in a schema of its own, dropped after the file's tests or by `closeDatabase`. */
export async function freshDatabase(options: { migrated?: boolean } = {}): Promise<Database> {
  const database = openDatabase({
    connectionString: inject('databaseUrl'),
    schema: `checkpoint_${randomUUID().slice(0, 13)}`,
    max: 10,
  });
  open.add(database);
  if (options.migrated ?? true) await migrate(database);
  return database;
}

export async function closeDatabase(database: Database): Promise<void> {
  open.delete(database);
  await database.pool.query(`DROP SCHEMA IF EXISTS ${quoteIdentifier(database.schema)} CASCADE`);
  await database.close();
}

afterAll(async () => {
  for (const database of Array.from(open)) await closeDatabase(database);
});

/** A row in `threads`, as the runtime makes it. */
export async function makeThread(database: Database, threadId: string = randomUUID()): Promise<string> {
  await database.query(
    `INSERT INTO ${database.table('threads')} (thread_id, checkpoint_thread_id, graph, version, lineage_root)
     VALUES ($1, $1, 'g', '1', $1) ON CONFLICT DO NOTHING`,
    [threadId],
  );
  return threadId;
}

/** Takes the fence as the runtime does, and binds a saver to it. */
export async function takeAttempt(
  saver: PerdureSaver,
  database: Database,
  threadId: string,
  more: Partial<Attempt> = {},
): Promise<BoundSaver> {
  const { rows } = await database.query<{ fence: string; head: string | null; version: number }>(
    `UPDATE ${database.table('threads')} SET fence = fence + 1 WHERE checkpoint_thread_id = $1
     RETURNING fence, head_checkpoint_id AS head, state_version AS version`,
    [threadId],
  );
  const [row] = rows;
  if (!row) throw new Error(`no thread ${threadId}`);
  return saver.bind({
    threadId,
    tenantId: 'default',
    publicThreadId: threadId,
    fence: Number(row.fence),
    graphVersion: 'g@1',
    runId: randomUUID(),
    head: row.head,
    stateVersion: row.version,
    nextNodes: () => [],
    ...more,
  });
}

/** How many rows of a thread each of LangGraph's tables holds. */
export async function rowsOf(database: Database, threadId: string): Promise<Record<string, number>> {
  const { rows } = await database.query<{ checkpoints: number; blobs: number; writes: number }>(
    `SELECT (SELECT count(*)::int FROM ${database.table('checkpoints')} WHERE thread_id = $1) AS checkpoints,
       (SELECT count(*)::int FROM ${database.table('checkpoint_blobs')} WHERE thread_id = $1) AS blobs,
       (SELECT count(*)::int FROM ${database.table('checkpoint_writes')} WHERE thread_id = $1) AS writes`,
    [threadId],
  );
  return rows[0] ?? {};
}
