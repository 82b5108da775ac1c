import {
  BaseCheckpointSaver,
  type ChannelVersions,
  type Checkpoint,
  type CheckpointListOptions,
  type CheckpointMetadata,
  type CheckpointTuple,
  type DeltaChannelHistory,
  INTERRUPT,
  type PendingWrite,
  RESUME,
  type SerializerProtocol,
} from '@langchain/langgraph-checkpoint';
import { OPERATION_QUESTION_PREFIX } from '../contracts/operations.ts';
import type { CheckpointMetadataFields } from '../contracts/checkpoint-metadata.ts';
import {
  ParentCheckpointError,
  StaleFenceError,
  StorageUnavailableError,
  ThreadDeletedError,
  UnknownThreadError,
} from '../contracts/errors.ts';
import { faultPoint } from '../telemetry/fault-points.ts';
import { type Attempt, type InterruptOrigin, placeIn } from './attempt.ts';
import { HeldWrites } from './held-writes.ts';
import { checkId } from './jsonb-text.ts';
import { interruptIds, isResult, Progress } from './progress.ts';
import { type CheckpointReader, type Configurable, metadataText } from './reader.ts';
import type { Identities } from './identities.ts';
import { type LeftHead, leftAt, type LeftHeads } from './left-heads.ts';
import { OUTPUT_TASK, type RunOutput, outputWrite } from './run-output.ts';
import { type Batch, dumpBlobs, dumpWrites, type Knowledge, type WriteRow } from './values.ts';
import { nextVersion } from './versions.ts';
import type { CheckpointWriter, Outcome, Writer } from './writer.ts';

/** The saver of one attempt on one thread: writes only while the attempt holds the newest fence. */
export class BoundSaver extends BaseCheckpointSaver {
  readonly #attempt: Attempt;
  readonly #reader: CheckpointReader;
  readonly #writer: CheckpointWriter;
  readonly #progress: Progress;
  readonly #held: HeldWrites;
  /**
   * Elements that the attempt has read or written, which it need not bring again: nobody removes one of a thread
   * without raising the thread's fence, and then this attempt writes no more.
   */
  readonly #stored: Set<string>;
  readonly #leftHeads: LeftHeads;
  readonly #left: LeftHead | undefined;
  /** The head, while it has no pending writes. */
  #newest: CheckpointTuple | undefined;
  readonly #knowledge: Knowledge;
  #head: string | null;
  #stateVersion: number;
  #failure: Error | undefined;

  constructor(
    attempt: Attempt,
    reader: CheckpointReader,
    writer: CheckpointWriter,
    serde: SerializerProtocol,
    identities: Identities,
    leftHeads: LeftHeads,
  ) {
    super(serde);
    this.#leftHeads = leftHeads;
    this.#left = leftHeads.take(attempt);
    this.#stored = this.#left?.stored ?? new Set();
    this.#newest = this.#left?.tuple;
    this.#knowledge = { identities, isStored: (hash) => this.#stored.has(hash) };
    this.#attempt = attempt;
    this.#reader = reader;
    this.#writer = writer;
    this.#progress = new Progress(attempt);
    this.#held = new HeldWrites((rows) => this.#watch(() => this.#storeWrites('', rows)));
    this.#head = attempt.head;
    this.#stateVersion = attempt.stateVersion;
  }

  /** The newest root checkpoint: the one the attempt began with, or the last it wrote. */
  get head(): string | null {
    return this.#head;
  }

  /** Keeps the head for the attempt that goes on from it, where that is in this process. */
  leave(): void {
    const { fence, threadId } = this.#attempt;
    if (this.#newest)
      this.#leftHeads.keep(threadId, { fence: Number(fence), tuple: this.#newest, stored: this.#stored });
  }

  /** Questions asked in this attempt, by interrupt id, each with the innermost task that asked. */
  get asked(): ReadonlyMap<string, InterruptOrigin> {
    return this.#progress.asked;
  }

  /** The last error that a call on this saver ended with, to be told from an error of a node. */
  get failure(): Error | undefined {
    return this.#failure;
  }

  /** Takes a root checkpoint, read by other means, for where the attempt stands. */
  standAt(tuple: CheckpointTuple): void {
    this.#progress.loaded('', tuple);
  }

  /** The superstep now executing in a namespace; undefined before anything of it was loaded or written. */
  stepOf(ns: string): number | undefined {
    return this.#progress.stepOf(ns);
  }

  /**
   * Whether the stored task still waits for an answer to this question: it holds it, and no result. Also where a
   * question about an operation took its place, before the task had taken the answer.
   * @param earlier how many questions the task had asked before this one. Default 0.
   */
  isAsked(interruptId: string, origin: InterruptOrigin, earlier = 0): Promise<boolean> {
    return this.#watch(async () => {
      const { checkpointNs, checkpointId, taskId } = origin;
      const writes = await this.#reader.taskWrites(
        this.#attempt.threadId,
        checkpointNs,
        checkpointId,
        taskId,
      );
      if (writes.some(([, channel]) => isResult(taskId, channel))) return false;
      const asked = writes.flatMap(([, channel, value]) =>
        channel === INTERRUPT ? interruptIds(value) : [],
      );
      if (asked.includes(interruptId)) return true;
      const taken = writes.flatMap(([, channel, value]) => (channel === RESUME ? value : []));
      return asked.some((id) => id.startsWith(OPERATION_QUESTION_PREFIX)) && taken.length <= earlier;
    });
  }

  override getTuple(config: Configurable): Promise<CheckpointTuple | undefined> {
    return this.#watch(async () => {
      if (this.#beginsAnew(config)) return undefined;
      const own = config.configurable?.thread_id === this.#attempt.threadId;
      const ns: unknown = config.configurable?.checkpoint_ns;
      const tuple =
        leftAt(this.#left?.tuple === this.#newest ? this.#newest : undefined, config) ??
        (await this.#reader.getTuple(config, own ? this.#stored : undefined));
      if (tuple && tuple.config.configurable?.thread_id === this.#attempt.threadId)
        this.#progress.loaded(typeof ns === 'string' ? ns : '', tuple);
      return tuple;
    });
  }

  /** Until it has stored one, an attempt that begins anew has no newest checkpoint, though the thread has. */
  #beginsAnew(config: Configurable): boolean {
    return (
      this.#attempt.forkFrom === null &&
      this.#head === this.#attempt.head &&
      (config.configurable?.checkpoint_id ?? '') === ''
    );
  }

  override async *list(
    config: Configurable,
    options?: CheckpointListOptions,
  ): AsyncGenerator<CheckpointTuple> {
    try {
      yield* this.#reader.list(config, options);
    } catch (error) {
      throw this.#note(error);
    }
  }

  override getDeltaChannelHistory(options: {
    config: Configurable;
    channels: string[];
  }): Promise<Record<string, DeltaChannelHistory>> {
    const own = options.config.configurable?.thread_id === this.#attempt.threadId;
    return this.#watch(() =>
      this.#reader.deltaHistory(options.config, options.channels, own ? this.#stored : undefined),
    );
  }

  override getNextVersion(current: number | undefined): number {
    return nextVersion(current);
  }

  /**
   * Stores a checkpoint, and the writes of the task that completed its superstep.
   * @throws StaleFenceError when a newer attempt holds the thread; ThreadDeletedError; ParentCheckpointError when it
   *   was not made from the thread's newest checkpoint; UnserializableValueError; StorageUnavailableError.
   */
  override put(
    config: Configurable,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    newVersions: ChannelVersions,
  ): Promise<Configurable> {
    return this.#watch(() => {
      const { ns, parentId } = placeIn(this.#attempt, config);
      const put = () => this.#put(ns, parentId, checkpoint, metadata, newVersions);
      return ns === '' ? this.#held.during(put) : put();
    });
  }

  async #put(
    ns: string,
    parentId: string | null,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    newVersions: ChannelVersions,
  ): Promise<Configurable> {
    const root = ns === '';
    checkId('checkpoint.id', checkpoint.id);
    const repeated = root && checkpoint.id === this.#head;
    if (root && !repeated) this.#checkParent(parentId);
    const stateVersion = this.#stateVersion + (root && !repeated ? 1 : 0);
    const planned = root ? this.#attempt.nextNodes(checkpoint, checkpoint.channel_values) : [];
    const full = { ...metadata, ...this.#fields(root, metadata, stateVersion, planned) };
    const text = metadataText(full);
    const dumped = dumpBlobs(this.serde, this.#knowledge, checkpoint.channel_values, newVersions);
    // What LangGraph does next belongs to this checkpoint, though its storing may not have ended.
    this.#progress.made(ns, checkpoint, metadata, planned);
    const taken = root ? this.#held.take(parentId) : [];
    let travelling: Batch<WriteRow>[];
    let blobs;
    try {
      blobs = await dumped;
      travelling = await Promise.all(taken.map((held) => held.rows));
    } catch (error) {
      this.#held.storeAlone(taken);
      throw error;
    }
    try {
      const write = {
        threadId: this.#attempt.threadId,
        ns,
        checkpoint,
        parentId,
        metadataText: text,
        blobs,
        writes: travelling,
      };
      faultPoint('checkpoint:before-put');
      await this.#check(parentId, await this.#writer.putCheckpoint(this.#as(), write));
    } catch (error) {
      for (const held of taken) held.reject(error);
      throw error;
    }
    if (root) {
      this.#head = checkpoint.id;
      this.#stateVersion = stateVersion;
    }
    const at = (checkpoint_id: string) => ({
      configurable: { thread_id: this.#attempt.threadId, checkpoint_ns: ns, checkpoint_id },
    });
    const parent = parentId === null ? {} : { parentConfig: at(parentId) };
    if (root)
      this.#newest = { config: at(checkpoint.id), checkpoint, metadata: full, ...parent, pendingWrites: [] };
    for (const held of taken) held.resolve();
    this.#attempt.onCheckpoint?.({ checkpointId: checkpoint.id, step: metadata.step, checkpointNs: ns });
    return at(checkpoint.id);
  }

  /**
   * Stores a task's writes. Those that complete the superstep may wait for its checkpoint, for as long as the event
   * loop takes to turn; either way the promise settles when they are stored.
   * @throws StaleFenceError, ThreadDeletedError, UnserializableValueError, StorageUnavailableError.
   */
  override putWrites(
    config: Configurable,
    writes: PendingWrite[],
    taskId: string,
    taskPath = '',
  ): Promise<void> {
    return this.#watch(() => {
      const { ns, parentId } = placeIn(this.#attempt, config);
      const checkpointId = checkId('checkpoint_id', parentId ?? undefined);
      const rows = dumpWrites(
        this.serde,
        this.#knowledge,
        checkpointId,
        writes,
        checkId('task_id', taskId),
        taskPath,
      );
      const completes = this.#progress.wrote(ns, checkpointId, writes, taskId);
      // An attempt on one task alone stores no checkpoint that its writes could travel with.
      if (completes && !this.#attempt.task) return this.#held.hold(checkpointId, rows);
      return rows.then((ready) => this.#storeWrites(ns, ready));
    });
  }

  /** Keeps what the run puts out with its last checkpoint. @throws as `putWrites` does. */
  putOutput(output: RunOutput): Promise<void> {
    return this.#watch(async () => {
      const head = checkId('checkpoint_id', this.#head ?? undefined);
      const writes = [outputWrite(output)];
      await this.#storeWrites(
        '',
        await dumpWrites(this.serde, this.#knowledge, head, writes, OUTPUT_TASK, ''),
      );
    });
  }

  override deleteThread(threadId: string): Promise<void> {
    return this.#watch(() => this.#writer.deleteThread(checkId('thread_id', threadId)));
  }

  async #storeWrites(ns: string, rows: Batch<WriteRow>): Promise<void> {
    this.#newest = undefined;
    const outcome = await this.#writer.putWrites(this.#as(), this.#attempt.threadId, ns, rows);
    await this.#check(this.#head, outcome);
    faultPoint('checkpoint:writes-stored');
  }

  #as(): Writer {
    const { fence, task } = this.#attempt;
    return { fence: String(fence), expectedHead: this.#head, ...(task ? { task } : {}) };
  }

  #checkParent(parentId: string | null): void {
    if (parentId === this.#head) return;
    if (this.#head === this.#attempt.head && parentId === this.#attempt.forkFrom) return;
    throw new ParentCheckpointError(this.#attempt.publicThreadId, {
      parent: parentId,
      head: this.#head,
      run_id: this.#attempt.runId,
    });
  }

  /** Below the root, what a superstep of the root is about: its number, and no plan of its own. */
  #fields(
    root: boolean,
    metadata: CheckpointMetadata,
    stateVersion: number,
    planned: string[],
  ): CheckpointMetadataFields {
    return {
      graph_version: this.#attempt.graphVersion,
      run_id: this.#attempt.runId,
      superstep:
        (root ? metadata.step : (this.#progress.stepOf('') ?? metadata.step)) -
        (this.#attempt.forkSteps ?? 0),
      state_version: stateVersion,
      resume_node: planned.length > 0 ? planned.join(',') : null,
      pending_tasks: planned,
    };
  }

  /** Only what was stored counts as stored: a statement that failed, or was refused, leaves no element behind. */
  async #check(parentId: string | null, { done, brought, countedOn }: Outcome): Promise<void> {
    if (!done) throw await this.#refusal(parentId, countedOn);
    for (const hash of brought) this.#stored.add(hash);
  }

  async #refusal(parentId: string | null, countedOn: ReadonlySet<string>): Promise<Error> {
    const { threadId, publicThreadId, fence, runId } = this.#attempt;
    const state = await this.#writer.threadState(threadId);
    if (!state) return new UnknownThreadError(publicThreadId);
    if (state.deleted) return new ThreadDeletedError(publicThreadId);
    if (state.fence !== String(fence))
      return new StaleFenceError(publicThreadId, {
        fence: String(fence),
        newest: state.fence,
        run_id: runId,
      });
    const [missing] = await this.#writer.missingElements(threadId, countedOn);
    if (missing !== undefined)
      return new StorageUnavailableError(
        `Parts of the state of thread '${publicThreadId}' went from the table checkpoint_elements while it ran. The attempt is made again from the last checkpoint.`,
        { thread_id: publicThreadId, hash: missing, run_id: runId },
      );
    if (this.#attempt.task)
      return new StaleFenceError(publicThreadId, { task_id: this.#attempt.task.id, run_id: runId });
    return new ParentCheckpointError(publicThreadId, { parent: parentId, head: state.head, run_id: runId });
  }

  async #watch<T>(work: () => T | Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw this.#note(error);
    }
  }

  #note(error: unknown): Error {
    this.#failure = error instanceof Error ? error : new Error(String(error), { cause: error });
    return this.#failure;
  }
}
