import { randomUUID } from 'node:crypto';
import { JsonPlusSerializer } from '@langchain/langgraph-checkpoint';
import { type RunContext, withRunContext } from '../../src/operations/run-context.ts';
import { type Database, openDatabase } from '../../src/postgres/database.ts';
import { migrate } from '../../src/postgres/migrate.ts';

/** A database with perdure's tables in a schema of its own, without a Temporal: operations need no more. */
export async function openLedgerDatabase(connectionString: string): Promise<Database> {
  const database = openDatabase({ connectionString, schema: `graphs_${randomUUID().slice(0, 8)}` });
  await migrate(database);
  return database;
}

/** A thread, and the means to call code as the attempt does that advances it. */
export async function openThread(database: Database, graph: string): Promise<<T>(work: () => T) => T> {
  const threadId = randomUUID();
  await database.query(
    `INSERT INTO ${database.table('threads')} (tenant_id, thread_id, checkpoint_thread_id, graph, version, lineage_root, fence)
     VALUES ('default', $1, $1, $2, '17', $1, 1)`,
    [threadId, graph],
  );
  const context: RunContext = {
    database,
    tenantId: 'default',
    threadId,
    checkpointThreadId: threadId,
    lineageRoot: threadId,
    runId: randomUUID(),
    fence: 1,
    signal: new AbortController().signal,
    stepOf: () => undefined,
    serde: new JsonPlusSerializer(),
    workerId: randomUUID(),
    fail: () => {},
  };
  return (work) => withRunContext(context, work);
}
