import {
  BaseCheckpointSaver,
  type ChannelVersions,
  type Checkpoint,
  type CheckpointListOptions,
  type CheckpointMetadata,
  type CheckpointTuple,
  type DeltaChannelHistory,
  type PendingWrite,
} from '@langchain/langgraph-checkpoint';
import { deltaChannelHistoryTests, validate } from '@langchain/langgraph-checkpoint-validation';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type BoundSaver, PerdureSaver } from '../../src/checkpoint/saver.ts';
import type { Database } from '../../src/postgres/database.ts';
import { closeDatabase, freshDatabase, makeThread, takeAttempt } from './fixture.ts';

// The suite expects a runner with globals.
Object.assign(globalThis, { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it });

type Config = Parameters<BaseCheckpointSaver['getTuple']>[0];

/** The suite writes many threads: each has an attempt of its own, which nobody takes over. */
class AttemptPerThread extends BaseCheckpointSaver {
  readonly database: Database;
  readonly #saver: PerdureSaver;
  readonly #attempts = new Map<string, Promise<BoundSaver>>();

  constructor(database: Database) {
    super();
    this.database = database;
    this.#saver = new PerdureSaver(database);
  }

  #attempt(config: Config): Promise<BoundSaver> {
    const thread = String(config.configurable?.['thread_id']);
    let attempt = this.#attempts.get(thread);
    if (!attempt) {
      attempt = makeThread(this.database, thread).then(() => takeAttempt(this.#saver, this.database, thread));
      this.#attempts.set(thread, attempt);
    }
    return attempt;
  }

  override async getTuple(config: Config): Promise<CheckpointTuple | undefined> {
    const tuple = await (await this.#attempt(config)).getTuple(config);
    return tuple && withoutOurs(tuple);
  }

  override async *list(config: Config, options?: CheckpointListOptions): AsyncGenerator<CheckpointTuple> {
    for await (const tuple of this.#saver.list(config, options)) yield withoutOurs(tuple);
  }

  override async put(
    config: Config,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    versions: ChannelVersions,
  ): Promise<Config> {
    const {
      thread_id: thread,
      checkpoint_ns: ns,
      checkpoint_id: parent,
    } = (config.configurable ?? {}) as Record<string, string | undefined>;
    let attempt = await this.#attempt(config);
    if (thread !== undefined && (ns ?? '') === '' && attempt.head !== (parent ?? null)) {
      // The suite makes siblings, which is what forks are for, and second beginnings, which the runtime never makes.
      if (parent === undefined)
        await this.database.query(
          `UPDATE ${this.database.table('threads')} SET head_checkpoint_id = NULL WHERE thread_id = $1`,
          [thread],
        );
      const fork = takeAttempt(
        this.#saver,
        this.database,
        thread,
        parent === undefined ? {} : { forkFrom: parent },
      );
      this.#attempts.set(thread, fork);
      attempt = await fork;
    }
    return attempt.put(config, checkpoint, metadata, versions);
  }

  override async putWrites(
    config: Config,
    writes: PendingWrite[],
    taskId: string,
    taskPath?: string,
  ): Promise<void> {
    await (await this.#attempt(config)).putWrites(config, writes, taskId, taskPath);
  }

  override async deleteThread(thread: string): Promise<void> {
    await (await this.#attempt({ configurable: { thread_id: thread } })).deleteThread(thread);
  }

  override async getDeltaChannelHistory(options: {
    config: Config;
    channels: string[];
  }): Promise<Record<string, DeltaChannelHistory>> {
    return (await this.#attempt(options.config)).getDeltaChannelHistory(options);
  }
}

/** What a run adds to the metadata, taken out again: the suite compares the whole of it. */
function withoutOurs(tuple: CheckpointTuple): CheckpointTuple {
  const {
    graph_version: _1,
    run_id: _2,
    superstep: _3,
    state_version: _4,
    resume_node: _5,
    pending_tasks: _6,
    ...metadata
  } = tuple.metadata as unknown as Record<string, unknown>;
  return { ...tuple, metadata: metadata as unknown as CheckpointMetadata };
}

describe("LangGraph's own suite, through attempts", () => {
  const initializer = {
    checkpointerName: 'BoundSaver',
    createCheckpointer: async () => new AttemptPerThread(await freshDatabase()),
    destroyCheckpointer: (saver: AttemptPerThread) => closeDatabase(saver.database),
  };
  validate(initializer);
  deltaChannelHistoryTests(initializer);
});
