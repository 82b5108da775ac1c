import { PostgresSaver } from '@langchain/langgraph-checkpoint-postgres';
import type {
  ChannelVersions,
  Checkpoint,
  CheckpointListOptions,
  CheckpointMetadata,
  CheckpointPendingWrite,
  CheckpointTuple,
  DeltaChannelHistory,
  PendingWrite,
  SerializerProtocol,
} from '@langchain/langgraph-checkpoint';
import { ThreadDeletedError } from '../contracts/errors.ts';
import { type Database, type DatabaseOptions, openDatabase } from '../postgres/database.ts';
import { storageError } from '../postgres/failures.ts';
import type { Attempt } from './attempt.ts';
import { BoundSaver } from './bound-saver.ts';
import { checkId } from './jsonb-text.ts';
import { CheckpointReader, type Configurable, metadataText } from './reader.ts';
import { Identities } from './identities.ts';
import { LeftHeads } from './left-heads.ts';
import { RETRY_FOR_MS } from './retry.ts';
import type { RunOutput } from './run-output.ts';
import { PerdureSerializer } from './serializer.ts';
import { makeStatements, tablesOf } from './statements.ts';
import { StoredByThread } from './stored-by-thread.ts';
import { dumpBlobs, dumpWrites, type Knowledge } from './values.ts';
import { nextVersion } from './versions.ts';
import { CheckpointWriter, type Outcome } from './writer.ts';

export type { Attempt } from './attempt.ts';
export { BoundSaver } from './bound-saver.ts';

/** How often a write is made again because elements that it counted on were gone. */
const TRIES = 3;

export type PerdureSaverOptions = {
  /** How values are stored. Default: PerdureSerializer. */
  serde?: SerializerProtocol;
  /** How long a call goes on trying while Postgres can't be reached, in ms. Default 10,000. */
  retryForMs?: number;
};

/** How long a saver with a pool of its own waits for the answer to a statement, in ms. */
const STATEMENT_TIMEOUT_MS = 60_000;

/** Settings of the pool that `fromConnString` makes: 10 connections, 5 s for a free one, 60 s for an answer. */
export type PoolOptions = Pick<DatabaseOptions, 'max' | 'connectionTimeoutMillis' | 'statementTimeoutMs'>;

/**
 * LangGraph's PostgresSaver on the same tables: each call is one statement, what it stores comes back as it was,
 * forks keep their values apart, and pending writes come in the order in which LangGraph applies them.
 *
 * Used alone it is a drop-in. `bind` gives the saver of one attempt of the runtime, which checks before it writes.
 */
export class PerdureSaver extends PostgresSaver {
  readonly #database: Database;
  readonly #reader: CheckpointReader;
  readonly #writer: CheckpointWriter;
  readonly #identities = new Identities();
  readonly #leftHeads = new LeftHeads();
  readonly #stored = new StoredByThread();

  constructor(database: Database, options: PerdureSaverOptions = {}) {
    super(database.pool, options.serde ?? new PerdureSerializer(), { schema: database.schema });
    const retryForMs = options.retryForMs ?? RETRY_FOR_MS;
    const statements = makeStatements(database);
    this.#database = database;
    this.#reader = new CheckpointReader(database, statements, () => this.serde, this.#identities, retryForMs);
    this.#writer = new CheckpointWriter(database, statements, retryForMs);
  }

  /** A saver with a pool of its own, which `end()` closes. Schema: `public`, as with the shipped saver. */
  static override fromConnString(
    connectionString: string,
    options: PerdureSaverOptions & PoolOptions & { schema?: string } = {},
  ): PerdureSaver {
    const { schema = 'public', max, connectionTimeoutMillis, statementTimeoutMs, ...rest } = options;
    const pool = {
      ...(max === undefined ? {} : { max }),
      ...(connectionTimeoutMillis === undefined ? {} : { connectionTimeoutMillis }),
      statementTimeoutMs: statementTimeoutMs ?? STATEMENT_TIMEOUT_MS,
    };
    return new PerdureSaver(openDatabase({ connectionString, schema, ...pool }), rest);
  }

  /** The saver of one attempt: it writes only while the attempt's fence is the newest. */
  bind(attempt: Attempt): BoundSaver {
    const { serde } = this;
    return new BoundSaver(attempt, this.#reader, this.#writer, serde, this.#identities, this.#leftHeads);
  }

  /** The writes of one task, as stored under a checkpoint, in LangGraph's order. */
  taskWrites(
    threadId: string,
    ns: string,
    checkpointId: string,
    taskId: string,
  ): Promise<CheckpointPendingWrite[]> {
    return this.#reader.taskWrites(threadId, ns, checkpointId, taskId);
  }

  /** Makes the tables where they are missing, and adds what the shipped saver's lack. `migrate` does both as well. */
  override async setup(): Promise<void> {
    try {
      await super.setup();
      const { writes, elements } = tablesOf(this.#database);
      await this.#database.pool.query(
        `ALTER TABLE ${writes} ADD COLUMN IF NOT EXISTS task_path text NOT NULL DEFAULT '';
         CREATE TABLE IF NOT EXISTS ${elements} (thread_id text NOT NULL, hash bytea NOT NULL, type text NOT NULL,
           blob bytea NOT NULL, PRIMARY KEY (thread_id, hash))`,
      );
    } catch (error) {
      throw storageError(error);
    }
    this.#writer.forgetSchema();
  }

  /** One query. @throws StorageUnavailableError. */
  override getTuple(config: Configurable): Promise<CheckpointTuple | undefined> {
    return this.#reader.getTuple(config, this.#storedOf(config));
  }

  /** What a run put out that ended at this checkpoint, as far as the saver knows. Undefined: no such checkpoint. */
  getOutput(config: Configurable): Promise<RunOutput | undefined> {
    return this.#reader.output(config);
  }

  /** Newest first, fetched in pages as it is read. */
  override list(config: Configurable, options?: CheckpointListOptions): AsyncGenerator<CheckpointTuple> {
    return this.#reader.list(config, options);
  }

  override getDeltaChannelHistory(options: {
    config: Configurable;
    channels: string[];
  }): Promise<Record<string, DeltaChannelHistory>> {
    return this.#reader.deltaHistory(options.config, options.channels, this.#storedOf(options.config));
  }

  override getNextVersion(current: number | undefined): number {
    return nextVersion(current);
  }

  /**
   * Stores a checkpoint. Where the runtime knows the thread, its head moves as well, so that an attempt notices.
   * @throws ThreadDeletedError, UnserializableValueError, InvalidInputError, StorageUnavailableError.
   */
  override async put(
    config: Configurable,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    newVersions: ChannelVersions,
  ): Promise<Configurable> {
    const { threadId, ns, id } = place(config);
    const text = metadataText(metadata);
    checkId('checkpoint.id', checkpoint.id);
    await this.#write(threadId, async (knowledge) => {
      const blobs = await dumpBlobs(this.serde, knowledge, checkpoint.channel_values, newVersions);
      const write = { threadId, ns, checkpoint, parentId: id ?? null, metadataText: text, blobs, writes: [] };
      return this.#writer.putCheckpoint('free', write);
    });
    return { configurable: { thread_id: threadId, checkpoint_ns: ns, checkpoint_id: checkpoint.id } };
  }

  /** @throws ThreadDeletedError, UnserializableValueError, InvalidInputError, StorageUnavailableError. */
  override async putWrites(
    config: Configurable,
    writes: PendingWrite[],
    taskId: string,
    taskPath = '',
  ): Promise<void> {
    const { threadId, ns, id } = place(config);
    if (writes.length === 0) return;
    const checkpointId = checkId('checkpoint_id', id);
    checkId('task_id', taskId);
    await this.#write(threadId, async (knowledge) =>
      this.#writer.putWrites(
        'free',
        threadId,
        ns,
        await dumpWrites(this.serde, knowledge, checkpointId, writes, taskId, taskPath),
      ),
    );
  }

  /**
   * Writes what refers to elements without bringing those that are known to be stored. Another process may have
   * deleted the thread meanwhile: then all are brought.
   */
  async #write(threadId: string, write: (knowledge: Knowledge) => Promise<Outcome>): Promise<void> {
    for (let tried = 0; ; tried += 1) {
      const stored = this.#stored.of(threadId);
      const { done, brought, countedOn } = await write({
        identities: this.#identities,
        isStored: (hash) => stored.has(hash),
      });
      if (done) {
        for (const hash of brought) stored.add(hash);
        return;
      }
      const missing = await this.#writer.missingElements(threadId, countedOn);
      if (tried === TRIES) throw new ThreadDeletedError(threadId);
      if (missing.length > 0) this.#stored.forget(threadId);
      else if (!(await this.#isThere(threadId))) throw new ThreadDeletedError(threadId);
    }
  }

  /** Whether the thread that refused a write is there after all: its fence was raised while the write waited. */
  async #isThere(threadId: string): Promise<boolean> {
    const state = (await this.#writer.hasThreads()) ? await this.#writer.threadState(threadId) : undefined;
    return state?.deleted === false;
  }

  #storedOf(config: Configurable): Set<string> | undefined {
    const threadId: unknown = config.configurable?.thread_id;
    return typeof threadId === 'string' && threadId !== '' ? this.#stored.of(threadId) : undefined;
  }

  /** Removes the thread's checkpoints, and where the runtime knows the thread, keeps it from ever being written again. */
  override async deleteThread(threadId: string): Promise<void> {
    await this.#writer.deleteThread(checkId('thread_id', threadId));
    this.#stored.forget(threadId);
  }
}

function place(config: Configurable): { threadId: string; ns: string; id: string | undefined } {
  const {
    thread_id: threadId,
    checkpoint_ns: ns,
    checkpoint_id: id,
  } = (config.configurable ?? {}) as Record<string, unknown>;
  return {
    threadId: checkId('thread_id', threadId),
    ns: typeof ns === 'string' ? ns : '',
    id: id === undefined || id === null || id === '' ? undefined : checkId('checkpoint_id', id),
  };
}
