import { hostname } from 'node:os';
import type { Client } from '@temporalio/client';
import { isPerdureError, UnknownOperationError } from '../contracts/errors.ts';
import type { JsonValue } from '../contracts/json.ts';
import type { ThreadMigration } from '../contracts/migrate-workflow.ts';
import type { ThreadPruning } from '../contracts/pruning.ts';
import {
  NEW_EFFECT_QUESTION_PREFIX,
  type OperationResolution,
  type OperationView,
} from '../contracts/operations.ts';
import {
  UNFINISHED,
  type InterruptView,
  type RunRequest,
  type RunResult,
  type RunView,
  type StoppedRuns,
  type ThreadView,
} from '../contracts/runs.ts';
import { PerdureSaver } from '../checkpoint/saver.ts';
import {
  getOperation,
  listOperations,
  resolveOperation,
  type OperationFilter,
} from '../operations/ledger-views.ts';
import type { Database } from '../postgres/database.ts';
import { answerInterrupt, continueThread, type Answered } from '../threads/answer.ts';
import { cancelThread, type Cancelled } from '../threads/cancel.ts';
import { listGraphVersions, type ServedGraph } from '../threads/graph-versions.ts';
import { requestFork } from '../threads/request-fork.ts';
import { declareRestored } from '../threads/restore-watch.ts';
import { requestRun, type RecordedRun } from '../threads/request-run.ts';
import { retryThread, type Retried } from '../threads/retry-thread.ts';
import { effectsOf } from '../threads/stop-runs.ts';
import {
  listInterrupts,
  listRuns,
  listThreads,
  readRun,
  readThread,
  type InterruptFilter,
  type ThreadFilter,
  type ThreadKey,
} from '../threads/views.ts';
import { markSignalled } from '../threads/wake-list.ts';
import { toCopyRequest, toForkRequest, type CopyOptions, type ForkOptions } from './branch-options.ts';
import { copyThread, type CopiedThread } from './copy-thread.ts';
import { diffCheckpoints, type CheckpointDiff } from './diff.ts';
import { readHistory, type HistoryEntry } from './history.ts';
import { migrateThreads, type MigrateOptions } from './migrate.ts';
import { operationQuestion, questionOf } from './operation-questions.ts';
import { endOrphans } from './orphans.ts';
import { outputOf } from './output.ts';
import { parseResolution } from './resolution.ts';
import { pruneThreads, type PruneOptions } from './prune.ts';
import { RunWaiter } from './run-waiter.ts';
import { Schedules } from './schedules.ts';
import { signalCancel, wakeThread, type WakeTarget } from './wake.ts';

/** A run that was recorded, and the runs that it stopped. */
export type StartedRun = RecordedRun & { stopped?: StoppedRuns };

export type AnswerOptions = {
  /** May be left out when exactly one interrupt waits. */
  interruptId?: string | undefined;
  /** Default `user:unknown`. */
  actor?: string | undefined;
  /** The question's digest as it was seen: where it asks something else by now, the answer is refused. */
  digest?: string | undefined;
  /** By which door the answer comes. Default `client:` and the host's name. */
  from?: string | undefined;
};

export type ClientParts = {
  database: Database;
  temporal: Client;
  tenant: string;
  close?: () => Promise<void>;
};

/** Starts runs, answers interrupts, and shows what there is. Every call names a thread; nothing is kept in memory. */
export class PerdureClient {
  readonly database: Database;
  readonly temporal: Client;
  readonly tenant: string;
  readonly schedules: Schedules;
  readonly #saver: PerdureSaver;
  readonly #waiter: RunWaiter;
  readonly #close: (() => Promise<void>) | undefined;

  constructor(parts: ClientParts) {
    this.database = parts.database;
    this.temporal = parts.temporal;
    this.tenant = parts.tenant;
    this.#saver = new PerdureSaver(parts.database);
    this.#waiter = new RunWaiter(parts.database);
    this.schedules = new Schedules({ ...parts, wake: (run) => this.#wake(run) });
    this.#close = parts.close;
  }

  /**
   * Records a run and wakes its thread. Once it returns, the run happens, whatever crashes. `stopped` says what the
   * strategies `interrupt` and `rollback` stopped; the effects of a run that was rolled back are in its `readRun`.
   * @throws InvalidInputError | UnknownGraphError | VersionMismatchError | ThreadBusyError | ThreadDeletedError | StorageUnavailableError
   */
  async startRun(request: RunRequest): Promise<StartedRun> {
    const { wakes, ...run } = await requestRun(this.database, this.tenant, request);
    const stopping = run.stopped?.stopping_run ?? null;
    if (stopping !== null)
      await this.#signal(stopping, () => signalCancel(this.temporal, this.#target(run), stopping));
    else if (wakes) await this.#wake(run);
    return run;
  }

  /** Starts a run and waits for its end. */
  async run(request: RunRequest, signal?: AbortSignal): Promise<RunResult> {
    const { run_id } = await this.startRun(request);
    return this.waitForRun(run_id, signal);
  }

  /**
   * Answers an interrupt and wakes the thread. The same answer twice is taken once.
   * @throws UnknownThreadError | UnknownInterruptError | AmbiguousInterruptError | AlreadyAnsweredError | StaleApprovalError | InvalidInputError
   */
  async answer(threadId: string, value: JsonValue, options: AnswerOptions = {}): Promise<Answered> {
    const actor = options.actor ?? 'user:unknown';
    const asked = await operationQuestion(this.database, this.tenant, threadId, options.interruptId);
    if (asked) {
      const resolution = parseResolution(value);
      // Whether a fork may run an effect is between the two: its task reads the answer.
      if (!asked.interruptId.startsWith(NEW_EFFECT_QUESTION_PREFIX))
        await this.#resolveInLedger(asked.operationId, resolution, actor);
    }
    const { wakes, ...answered } = await answerInterrupt(this.database, this.tenant, {
      thread_id: threadId,
      value,
      actor,
      digest: options.digest,
      from: options.from ?? `client:${hostname()}`,
      ...(options.interruptId === undefined ? {} : { interrupt_id: options.interruptId }),
    });
    if (wakes) await this.#wake(answered);
    return answered;
  }

  /** Goes on after a static interrupt (`interruptBefore`, `interruptAfter`). */
  async continueThread(threadId: string, actor = 'user:unknown'): Promise<RecordedRun> {
    const run = await continueThread(this.database, this.tenant, threadId, actor);
    await this.#wake(run);
    return run;
  }

  /**
   * Goes on with a thread that an error blocked, from its last checkpoint; tasks that had finished are not run again.
   * A run that waits for its next attempt is tried at once.
   * @throws UnknownThreadError | ThreadDeletedError | NothingToRetryError
   */
  async retry(threadId: string, actor = 'user:unknown'): Promise<Retried> {
    const run = await retryThread(this.database, this.tenant, threadId, actor);
    await this.#wake(run);
    return run;
  }

  /**
   * Begins a new branch at an older checkpoint, and goes on from there. The branch that the thread was on stays as
   * it was, with the answers that were given in it.
   * @throws InvalidInputError | UnknownThreadError | ThreadDeletedError | UnknownCheckpointError
   */
  async fork(threadId: string, options: ForkOptions): Promise<RecordedRun> {
    const request = toForkRequest(options);
    const { wakes, ...run } = await requestFork(this.database, this.tenant, threadId, request);
    if (wakes) await this.#wake(run);
    return run;
  }

  /**
   * Copies a thread: the same graph version and lineage, the checkpoints that lead to where the copy stands, and, where
   * that is where the original stands, its pending questions. Nothing runs, and the original stays as it is. What was
   * done outside is on record for both, so that neither does it again.
   * @throws InvalidInputError | UnknownThreadError | ThreadDeletedError | ThreadBusyError | ThreadExistsError | UnknownCheckpointError | PrunedCheckpointError | VersionMismatchError
   */
  copyThread(threadId: string, options: CopyOptions = {}): Promise<CopiedThread> {
    return copyThread(this.database, this.tenant, threadId, toCopyRequest(options));
  }

  /** Waits until the run has ended and shows how. */
  async waitForRun(runId: string, signal?: AbortSignal): Promise<RunResult> {
    return this.#waiter.until(
      runId,
      async () => {
        const result = await this.readRun(runId);
        return UNFINISHED.includes(result.status) ? undefined : result;
      },
      signal,
    );
  }

  /** The run as it stands, with its output or its questions. @throws UnknownRunError */
  async readRun(runId: string): Promise<RunResult> {
    const row = await readRun(this.database, this.tenant, runId);
    const { thread_id, run_id, graph, version, status } = row;
    const result: RunResult = { thread_id, run_id, graph, version, status };
    if (status === 'success')
      Object.assign(result, await outputOf(this.database, this.#saver, this.tenant, row));
    if (status === 'interrupted' && row.stopped_by === null) {
      const pending = await listInterrupts(this.database, this.tenant, {
        thread_id,
        status: 'pending',
        limit: 1_000,
      });
      result.interrupts = pending.map(({ id, node, value, kind, due_at }) => ({
        id,
        node,
        value,
        kind,
        due_at,
      }));
      result.next = row.next ?? [];
    }
    if (row.error) result.error = row.error;
    if (row.stopped_by !== null) result.stopped_by = row.stopped_by;
    if (status === 'rolled_back')
      result.effects = await effectsOf(this.database, this.database, this.tenant, runId);
    return result;
  }

  /** Ends what the thread has under way and withdraws its questions. @throws UnknownThreadError */
  async cancel(threadId: string): Promise<Cancelled> {
    const cancelled = await cancelThread(this.database, this.tenant, threadId);
    if (cancelled.stopping_run !== null)
      await signalCancel(this.temporal, this.#target(cancelled), cancelled.stopping_run);
    return cancelled;
  }

  /**
   * Says what became of an operation whose fate is unknown, and lets the thread that waits for it go on.
   * @throws UnknownOperationError | InvalidInputError
   */
  async resolveOperation(
    operationId: string,
    resolution: OperationResolution,
    actor = 'user:unknown',
  ): Promise<{ operation: OperationView; answered: Answered | undefined }> {
    const parsed = parseResolution(resolution);
    const pending = await questionOf(this.database, this.tenant, operationId);
    if (pending) {
      const answered = await this.answer(pending.thread_id, parsed, {
        interruptId: pending.interrupt_id,
        actor,
      });
      return { operation: await this.operation(operationId), answered };
    }
    await this.#resolveInLedger(operationId, parsed, actor);
    return { operation: await this.operation(operationId), answered: undefined };
  }

  threads(filter: Partial<ThreadFilter> = {}): Promise<ThreadView[]> {
    return listThreads(this.database, this.tenant, { limit: 50, ...filter });
  }

  thread(threadId: string): Promise<ThreadView> {
    return readThread(this.database, this.tenant, threadId);
  }

  runs(threadId: string, limit = 50): Promise<RunView[]> {
    return listRuns(this.database, this.tenant, threadId, limit);
  }

  interrupts(filter: Partial<InterruptFilter> = {}): Promise<InterruptView[]> {
    return listInterrupts(this.database, this.tenant, { limit: 50, ...filter });
  }

  graphs(): Promise<ServedGraph[]> {
    return listGraphVersions(this.database, this.tenant);
  }

  /**
   * Moves threads to another version of their graph by its declared migrations, each all or nothing, and tells what
   * became of each. A pending question stays pending, under the same id.
   * @throws InvalidInputError | UnknownGraphError | UnknownThreadError | VersionNotServedError | TemporalUnavailableError
   */
  migrateThreads(options: MigrateOptions): AsyncGenerator<ThreadMigration> {
    return migrateThreads(this, options);
  }

  /**
   * Deletes old checkpoints of threads and tells of each thread as it is done. What a thread still needs stays; one with
   * an unfinished run is left alone. Nothing is ever pruned unless it is asked for.
   * @throws InvalidInputError where nothing says what to keep; UnknownThreadError | StorageUnavailableError
   */
  prune(options: PruneOptions): AsyncGenerator<ThreadPruning> {
    return pruneThreads(this.database, this.tenant, options);
  }

  /**
   * Says that Postgres was put back to a backup: every thread looks for effects before it has new ones, until a run of
   * it has succeeded. Workers that lived meanwhile notice by themselves. Repeating it is harmless.
   * @returns how many threads there are, and those that only Temporal knew: their workflows are ended.
   * @throws StorageUnavailableError | TemporalUnavailableError
   */
  async declareRestored(): Promise<{ threads: number; ended: ThreadKey[] }> {
    const threads = await declareRestored(this.database);
    return { threads, ended: await endOrphans(this.database, this.temporal) };
  }

  /** The thread's checkpoints, newest first: those of the whole graph, or of subgraphs as well. @throws UnknownThreadError */
  history(threadId: string, limit = 50, options: { subgraphs?: boolean } = {}): Promise<HistoryEntry[]> {
    return readHistory(this.database, this.tenant, threadId, { limit, ...options });
  }

  /** What differs between the values of two of the thread's checkpoints. @throws UnknownThreadError | UnknownCheckpointError */
  diff(threadId: string, a: string, b: string): Promise<CheckpointDiff> {
    return diffCheckpoints(this.database, this.tenant, threadId, a, b);
  }

  /** @throws UnknownOperationError */
  async operation(operationId: string): Promise<OperationView> {
    const found = await getOperation(this.database, this.tenant, operationId);
    if (!found) throw new UnknownOperationError(operationId);
    return found;
  }

  operations(filter: Partial<OperationFilter> = {}): Promise<OperationView[]> {
    return listOperations(this.database, this.tenant, { limit: 50, ...filter });
  }

  async close(): Promise<void> {
    await this.#waiter.close();
    await this.#close?.();
  }

  #wake(run: RecordedRun): Promise<void> {
    return this.#signal(run.run_id, () => wakeThread(this.temporal, this.#target(run), run.run_id));
  }

  /** What was asked is recorded: a Temporal that is away now only delays it, and the sweeper signals again. */
  async #signal(runId: string, send: () => Promise<void>): Promise<void> {
    try {
      await send();
      await markSignalled(this.database, this.tenant, runId);
    } catch (error) {
      if (!isPerdureError(error, 'TEMPORAL_UNAVAILABLE')) throw error;
    }
  }

  #target(run: { thread_id: string; graph: string; version: string }): WakeTarget {
    return {
      schema: this.database.schema,
      tenant_id: this.tenant,
      thread_id: run.thread_id,
      graph: run.graph,
      version: run.version,
    };
  }

  /** Leaves a resolution that was recorded before a crash as it is, so that the thread can be woken after all. */
  async #resolveInLedger(operationId: string, resolution: OperationResolution, actor: string): Promise<void> {
    const operation = await this.operation(operationId);
    if (operation.resolved_by !== null && operation.status !== 'unknown') return;
    await resolveOperation(this.database, this.tenant, operationId, resolution, actor);
  }
}
