import {
  BaseCheckpointSaver,
  type ChannelVersions,
  type Checkpoint,
  type CheckpointListOptions,
  type CheckpointMetadata,
  type CheckpointTuple,
  type DeltaChannelHistory,
  type PendingWrite,
  RESUME,
} from '@langchain/langgraph-checkpoint';
import type { BoundSaver } from './bound-saver.ts';
import type { Configurable } from './reader.ts';

export type TaskSaverOptions = {
  taskId: string;
  /** The root checkpoint that the task was planned at, with the pending writes that make LangGraph run it alone. */
  tuple: CheckpointTuple;
  /** Called when the task has written something of its own, before it is stored. */
  onWrites(channels: readonly string[]): void;
};

/**
 * The saver of an attempt on one task of a root superstep. LangGraph finds the task as the only one that is unfinished,
 * and the checkpoints of the root graph that it would make next are dropped: they are made once all tasks have ended.
 */
export class TaskSaver extends BaseCheckpointSaver {
  readonly #bound: BoundSaver;
  readonly #options: TaskSaverOptions;
  readonly #ownDone: Promise<void>[] = [];

  constructor(bound: BoundSaver, options: TaskSaverOptions) {
    super(bound.serde);
    this.#bound = bound;
    this.#options = options;
    bound.standAt(options.tuple);
  }

  /** Resolves once what the task wrote so far is stored. @throws what the storing threw. */
  async stored(): Promise<void> {
    await Promise.all(this.#ownDone);
  }

  override async getTuple(config: Configurable): Promise<CheckpointTuple | undefined> {
    if (isRoot(config)) return this.#options.tuple;
    return this.#bound.getTuple(config);
  }

  override list(config: Configurable, options?: CheckpointListOptions): AsyncGenerator<CheckpointTuple> {
    return this.#bound.list(config, options);
  }

  override getDeltaChannelHistory(options: {
    config: Configurable;
    channels: string[];
  }): Promise<Record<string, DeltaChannelHistory>> {
    return this.#bound.getDeltaChannelHistory(options);
  }

  override getNextVersion(current: number | undefined): number {
    return this.#bound.getNextVersion(current);
  }

  override async put(
    config: Configurable,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    newVersions: ChannelVersions,
  ): Promise<Configurable> {
    if (!isRoot(config)) return this.#bound.put(config, checkpoint, metadata, newVersions);
    return { configurable: { ...config.configurable, checkpoint_id: checkpoint.id } };
  }

  override async putWrites(
    config: Configurable,
    writes: PendingWrite[],
    taskId: string,
    taskPath?: string,
  ): Promise<void> {
    const answers = writes.every(([channel]) => channel === RESUME);
    if (isRoot(config) && taskId !== this.#options.taskId && answers)
      // LangGraph files a map of answers under their questions' ids; each attempt is given them anew.
      return;
    const stored = this.#bound.putWrites(config, writes, taskId, taskPath);
    if (isRoot(config) && taskId === this.#options.taskId && !answers) {
      stored.catch(() => undefined);
      this.#ownDone.push(stored);
      this.#options.onWrites(writes.map(([channel]) => channel));
    }
    return stored;
  }

  override deleteThread(threadId: string): Promise<void> {
    return this.#bound.deleteThread(threadId);
  }
}

function isRoot(config: Configurable): boolean {
  return (config.configurable?.checkpoint_ns ?? '') === '';
}
