import { randomUUID } from 'node:crypto';
import { inject } from 'vitest';
import { PerdureSerializer } from '../../src/checkpoint/serializer.ts';
import { withRunContext, type RunContext } from '../../src/operations/run-context.ts';
import { openDatabase, quoteIdentifier, type Database } from '../../src/postgres/database.ts';
import { migrate } from '../../src/postgres/migrate.ts';

/** A schema of its own, with its tables. */
export async function openLedger(): Promise<Database> {
  const schema = `operations_${randomUUID().slice(0, 8)}`;
  const database = openDatabase({ connectionString: inject('databaseUrl'), schema });
  await migrate(database);
  return database;
}

export async function dropLedger(database: Database): Promise<void> {
  await database.query(`DROP SCHEMA ${quoteIdentifier(database.schema)} CASCADE`);
  await database.close();
}

/** A thread made by hand, and attempts on it. */
export class TestThread {
  readonly database: Database;
  readonly threadId: string;
  readonly lineageRoot: string;
  fence = 1;
  /** What ended the attempts. */
  readonly failures: Error[] = [];

  private constructor(database: Database, threadId: string, lineageRoot: string) {
    this.database = database;
    this.threadId = threadId;
    this.lineageRoot = lineageRoot;
  }

  static async open(
    database: Database,
    threadId = `t-${randomUUID()}`,
    lineageRoot = threadId,
  ): Promise<TestThread> {
    await database.query(
      `INSERT INTO ${database.table('threads')} (tenant_id, thread_id, checkpoint_thread_id, graph, version, lineage_root, fence)
      VALUES ('default', $1, $1, 'test', '1', $2, 1)`,
      [threadId, lineageRoot],
    );
    return new TestThread(database, threadId, lineageRoot);
  }

  /** As a new attempt does: from now on the older ones are stale. */
  async takeFence(): Promise<number> {
    this.fence += 1;
    await this.database.query(
      `UPDATE ${this.database.table('threads')} SET fence = $2 WHERE thread_id = $1`,
      [this.threadId, this.fence],
    );
    return this.fence;
  }

  context(changes: Partial<RunContext> = {}): RunContext {
    return {
      database: this.database,
      tenantId: 'default',
      threadId: this.threadId,
      checkpointThreadId: this.threadId,
      lineageRoot: this.lineageRoot,
      runId: randomUUID(),
      fence: this.fence,
      signal: new AbortController().signal,
      stepOf: () => undefined,
      serde: new PerdureSerializer(),
      workerId: randomUUID(),
      fail: (error) => this.failures.push(error),
      ...changes,
    };
  }

  run<T>(work: () => T, changes: Partial<RunContext> = {}): T {
    return withRunContext(this.context(changes), work);
  }

  /** LangGraph's config for this thread. */
  get config(): { configurable: { thread_id: string } } {
    return { configurable: { thread_id: this.threadId } };
  }
}

/** A promise that the test settles. */
export function gate<T = void>(): { opened: Promise<T>; open: (value: T) => void } {
  let open: (value: T) => void = () => undefined;
  const opened = new Promise<T>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}
