import type { Checkpoint } from '@langchain/langgraph-checkpoint';
import { PerdureError } from '../contracts/errors.ts';
import type { Database } from '../postgres/database.ts';
import { escapeText, toJsonbText } from './jsonb-text.ts';
import { withRetries } from './retry.ts';
import { type Gate, type Statement, type Statements, tablesOf } from './statements.ts';
import type { Element } from './element.ts';
import {
  type Batch,
  blobColumns,
  type BlobRow,
  distinctWrites,
  elementColumns,
  Packer,
  writeColumns,
  type WriteRow,
} from './values.ts';

/** Who writes: an attempt of the runtime, or a saver used alone. */
export type Writer =
  { fence: string; expectedHead: string | null; task?: { id: string; token: string } } | 'free';

export type CheckpointWrite = {
  threadId: string;
  ns: string;
  checkpoint: Checkpoint;
  parentId: string | null;
  metadataText: string;
  blobs: Batch<BlobRow>;
  /** Writes that travel with the checkpoint. */
  writes: readonly Batch<WriteRow>[];
};

/** What came of a write. When it was refused, nothing was written. */
export type Outcome = {
  done: boolean;
  /** The elements that it brought. */
  brought: Iterable<string>;
  /** Those that it counted on without bringing them; it is refused while one is missing. */
  countedOn: ReadonlySet<string>;
};

/** Writes checkpoints and task writes, each in one statement that also checks whether it may. */
export class CheckpointWriter {
  readonly #database: Database;
  readonly #statements: Statements;
  readonly #retryForMs: number;
  #hasThreads: Promise<boolean> | undefined;

  constructor(database: Database, statements: Statements, retryForMs: number) {
    this.#database = database;
    this.#statements = statements;
    this.#retryForMs = retryForMs;
  }

  async putCheckpoint(writer: Writer, write: CheckpointWrite): Promise<Outcome> {
    const root = write.ns === '';
    const gate = await this.#gate(writer, root);
    const { checkpoint } = write;
    const rows = write.writes.flatMap((batch) => batch.rows);
    const elements = joined([write.blobs, ...write.writes]);
    const packer = new Packer();
    const blobs = blobColumns(write.blobs.rows, packer);
    const tasks = rows.length > 0 ? writeColumns(distinctWrites(rows), packer) : [];
    const needed = elementColumns([...write.blobs.rows, ...rows], elements, packer);
    const { channel_values: _values, ...rest } = checkpoint;
    const values = [
      write.threadId,
      ...gateValues(writer, gate, checkpoint.id),
      escapeText(write.ns),
      packer.data(),
      checkpoint.id,
      write.parentId,
      toJsonbText(rest),
      write.metadataText,
      ...blobs,
      ...tasks,
      ...(needed?.parameters ?? []),
    ];
    const statement = this.#statements.putCheckpoint(gate, tasks.length > 0, needed !== undefined);
    return this.#run(statement, values, elements, needed?.countedOn);
  }

  async putWrites(writer: Writer, threadId: string, ns: string, batch: Batch<WriteRow>): Promise<Outcome> {
    const gate = await this.#gate(writer, false);
    const packer = new Packer();
    const columns = writeColumns(distinctWrites(batch.rows), packer);
    const needed = elementColumns(batch.rows, batch.elements, packer);
    const values = [
      threadId,
      ...gateValues(writer, gate, ''),
      escapeText(ns),
      packer.data(),
      ...columns,
      ...(needed?.parameters ?? []),
    ];
    const statement = this.#statements.putWrites(gate, needed !== undefined);
    return this.#run(statement, values, batch.elements, needed?.countedOn);
  }

  async #run(
    statement: Statement,
    values: unknown[],
    elements: ReadonlyMap<string, Element>,
    countedOn: ReadonlySet<string> = new Set(),
  ): Promise<Outcome> {
    return withRetries(this.#database, this.#retryForMs, async () => {
      const { rowCount } = await this.#database.pool.query({ ...statement, values });
      return { done: rowCount === 1, brought: elements.keys(), countedOn };
    });
  }

  /** Those of `hashes` that are not stored with the thread. */
  async missingElements(threadId: string, hashes: ReadonlySet<string>): Promise<string[]> {
    if (hashes.size === 0) return [];
    const values = [threadId, [...hashes].map((hash) => Buffer.from(hash, 'hex'))];
    const { rows } = await withRetries(this.#database, this.#retryForMs, () =>
      this.#database.pool.query<{ hash: string }>({ ...this.#statements.missingElements(), values }),
    );
    return rows.map(({ hash }) => hash);
  }

  async #gate(writer: Writer, movesHead: boolean): Promise<Gate> {
    if (writer !== 'free') return movesHead ? 'attempt-head' : writer.task ? 'attempt-task' : 'attempt';
    if (!(await this.hasThreads())) return 'none';
    return movesHead ? 'free-head' : 'free';
  }

  /** Whether this database knows threads, asked once; a database that only the shipped saver set up does not. */
  hasThreads(): Promise<boolean> {
    this.#hasThreads ??= this.#lookForThreads().catch((error: unknown) => {
      this.#hasThreads = undefined;
      throw error;
    });
    return this.#hasThreads;
  }

  async #lookForThreads(): Promise<boolean> {
    const tables = tablesOf(this.#database);
    const { rows } = await withRetries(this.#database, this.#retryForMs, () =>
      this.#database.pool.query<{ threads: boolean; ready: boolean }>(
        `SELECT to_regclass($1) IS NOT NULL AS threads, to_regclass($3) IS NOT NULL
           AND EXISTS (SELECT 1 FROM pg_attribute
             WHERE attrelid = to_regclass($2) AND attname = 'task_path' AND NOT attisdropped) AS ready`,
        [tables.threads, tables.writes, tables.elements],
      ),
    );
    if (!rows[0]?.ready)
      throw new PerdureError(
        'SCHEMA_NOT_READY',
        `Schema '${this.#database.schema}' is not ready for this version of perdure. Run 'perdure migrate', or call setup() on the saver.`,
        { schema: this.#database.schema },
      );
    return rows[0].threads;
  }

  /** After a schema change. */
  forgetSchema(): void {
    this.#hasThreads = undefined;
  }

  /**
   * Removes a thread's checkpoints. Where the runtime knows the thread, it is marked first, in the same transaction:
   * writers that are under way end before, later ones are refused.
   */
  async deleteThread(threadId: string): Promise<void> {
    const { threads, checkpoints, blobs, writes, elements } = tablesOf(this.#database);
    const known = await this.hasThreads();
    await withRetries(this.#database, this.#retryForMs, () =>
      this.#database.transaction(async (client) => {
        if (known)
          await client.query(
            `UPDATE ${threads} SET deleted_at = coalesce(deleted_at, now()), fence = fence + 1, updated_at = now()
             WHERE checkpoint_thread_id = $1`,
            [threadId],
          );
        for (const table of [checkpoints, blobs, writes, elements])
          await client.query(`DELETE FROM ${table} WHERE thread_id = $1`, [threadId]);
      }),
    );
  }

  /** Why the gate was shut. Undefined when the runtime doesn't know the thread. */
  async threadState(threadId: string): Promise<ThreadState | undefined> {
    const { rows } = await withRetries(this.#database, this.#retryForMs, () =>
      this.#database.pool.query<ThreadState>(
        `SELECT fence::text AS fence, deleted_at IS NOT NULL AS deleted, head_checkpoint_id AS head
         FROM ${tablesOf(this.#database).threads} WHERE checkpoint_thread_id = $1`,
        [threadId],
      ),
    );
    return rows[0];
  }
}

export type ThreadState = { fence: string; deleted: boolean; head: string | null };

function joined(batches: readonly Batch<unknown>[]): ReadonlyMap<string, Element> {
  const [first, second] = batches.filter((batch) => batch.elements.size > 0);
  if (!first) return new Map();
  return second ? new Map(batches.flatMap((batch) => [...batch.elements])) : first.elements;
}

/** In the order of the gate's parameters after the thread; see statements.ts. */
function gateValues(writer: Writer, gate: Gate, newHead: string): unknown[] {
  if (writer === 'free') return gate === 'free-head' ? [newHead] : [];
  if (gate === 'attempt-head') return [writer.fence, newHead, writer.expectedHead];
  return gate === 'attempt-task' ? [writer.fence, writer.task?.id, writer.task?.token] : [writer.fence];
}
