import { randomUUID } from 'node:crypto';
import { setMaxListeners } from 'node:events';
import { Command, RunControl } from '@langchain/langgraph';
import type { CheckpointPendingWrite, CheckpointTuple } from '@langchain/langgraph-checkpoint';
import type { BoundSaver } from '../checkpoint/saver.ts';
import { TaskSaver } from '../checkpoint/task-saver.ts';
import { isPerdureError, NodeTimeoutError, StaleFenceError } from '../contracts/errors.ts';
import { graphRef } from '../contracts/ids.ts';
import type { RunTaskRequest, RunTaskResult, TaskOutcome } from '../contracts/thread-workflow.ts';
import { withRunContext } from '../operations/run-context.ts';
import { faultPoint } from '../telemetry/fault-points.ts';
import { givenAnswers } from '../threads/segment.ts';
import { answeredOf, beginTask, recordTaskError, type BegunTask } from '../threads/task-attempts.ts';
import { hasEnded, hasErrorHandler, questionsOf } from './due-tasks.ts';
import type { LoadedGraph } from './load-graphs.ts';
import { judgeTask } from './failure.ts';
import { findMachineryError } from './machinery.ts';
import { nextNodesOf } from './next-nodes.ts';
import { runContext, streamSettings } from './run-settings.ts';
import {
  createSegmentRunner,
  HEARTBEAT_MS,
  type SegmentControl,
  type SegmentRunnerOptions,
} from './segment.ts';
import { aloneIn, graphForTask, plannedTasks, type PlannedTask } from './superstep.ts';
import { SuperstepCache, type LoadedSuperstep } from './superstep-cache.ts';
import { TaskFailure } from './task-failure.ts';

export type TaskRunner = (request: RunTaskRequest, control: SegmentControl) => Promise<RunTaskResult>;

/**
 * Runs one task of a superstep, under the fence of the segment that handed it out. One that is alone in its superstep
 * is run by a segment, which goes on from there.
 */
export function createTaskRunner(options: SegmentRunnerOptions): TaskRunner {
  const runSegment = createSegmentRunner(options);
  const cache = new SuperstepCache();
  return async (request, control) => {
    if (request.alone) {
      const { tenant_id, thread_id, graph, version, run_id, checkpoint_id, task_id, node } = request;
      const own_task = { run_id, checkpoint_id, task_id, node };
      return runSegment({ tenant_id, thread_id, graph, version, own_task }, control);
    }
    if (control.draining.aborted) return { task: 'handed_back' };
    const token = randomUUID();
    const begun = await beginTask(options.database, request.tenant_id, { ...request, token });
    if (!begun) return { task: 'overtaken' };
    if (begun.cancel_requested) return { task: 'cancelled' };
    faultPoint('task:begun');
    return { task: await new Task(options, cache, request, control, begun, token).run() };
  };
}

/** One attempt on one task. */
class Task {
  readonly #options: SegmentRunnerOptions;
  readonly #cache: SuperstepCache;
  readonly #request: RunTaskRequest;
  readonly #control: SegmentControl;
  readonly #begun: BegunTask;
  readonly #token: string;
  readonly #stop = new AbortController();
  readonly #drain = new RunControl();
  #written: readonly string[] = [];
  #timedOut: NodeTimeoutError | undefined;
  #broken: Error | undefined;

  constructor(
    options: SegmentRunnerOptions,
    cache: SuperstepCache,
    request: RunTaskRequest,
    control: SegmentControl,
    begun: BegunTask,
    token: string,
  ) {
    this.#options = options;
    this.#cache = cache;
    this.#request = request;
    this.#control = control;
    this.#begun = begun;
    this.#token = token;
    setMaxListeners(0, this.#stop.signal);
  }

  async run(): Promise<TaskOutcome> {
    const { graph: name, version, run_id, checkpoint_id } = this.#request;
    const graph = this.#options.graphs.get(name, version);
    const beat = () => this.#control.heartbeat({ run_id, checkpoint_id, step: null });
    beat();
    const beating = setInterval(beat, HEARTBEAT_MS);
    try {
      const loaded = await this.#load(graph);
      const task = loaded.tasks.find(({ id }) => id === this.#request.task_id);
      // A segment that got further shuts this one out at its first write at the latest.
      if (!task) throw new StaleFenceError(this.#request.thread_id, { task_id: this.#request.task_id });
      const written = await this.#earlierWrites(task);
      return (
        (await this.#settled(graph, task, written)) ?? (await this.#execute(graph, loaded, task, written))
      );
    } catch (error) {
      if (isPerdureError(error, 'FENCE_STALE') || isPerdureError(error, 'THREAD_DELETED')) return 'overtaken';
      throw error;
    } finally {
      clearInterval(beating);
    }
  }

  /** The first attempts on tasks of one superstep share what was read, as they do within one process anyway. */
  #load(graph: LoadedGraph): Promise<LoadedSuperstep> {
    const { checkpoint_id } = this.#request;
    const threadId = this.#begun.checkpoint_thread_id;
    const load = async (): Promise<LoadedSuperstep> => {
      const tuple = await this.#options.saver.getTuple({
        configurable: { thread_id: threadId, checkpoint_ns: '', checkpoint_id },
      });
      if (!tuple) throw new StaleFenceError(this.#request.thread_id, { checkpoint_id });
      return { tuple, tasks: await plannedTasks(graph.graph, tuple, this.#options.saver) };
    };
    const key = JSON.stringify([graphRef(graph.name, graph.version), threadId, checkpoint_id]);
    return this.#begun.attempts === 1 ? this.#cache.get(key, load) : load();
  }

  /** What earlier attempts stored. In a run from new input that planned the task itself, a first attempt finds nothing. */
  async #earlierWrites(task: PlannedTask): Promise<CheckpointPendingWrite[]> {
    const { kind, attempts, checkpoint_thread_id: threadId } = this.#begun;
    if (kind === 'input' && attempts === 1) return [];
    return this.#options.saver.taskWrites(threadId, '', this.#request.checkpoint_id, task.id);
  }

  /** How the task ended in an earlier attempt. */
  async #settled(
    graph: LoadedGraph,
    task: PlannedTask,
    written: readonly CheckpointPendingWrite[],
  ): Promise<TaskOutcome | undefined> {
    if (hasEnded(graph, task, written)) return 'done';
    const asked = questionsOf(written);
    if (asked.length === 0) return undefined;
    const answered = await answeredOf(
      this.#options.database,
      this.#request.tenant_id,
      this.#request.thread_id,
      asked,
    );
    return answered.size === 0 ? 'interrupted' : undefined;
  }

  async #execute(
    graph: LoadedGraph,
    loaded: LoadedSuperstep,
    task: PlannedTask,
    written: readonly CheckpointPendingWrite[],
  ): Promise<TaskOutcome> {
    const tuple = aloneIn({ ...loaded.tuple, pendingWrites: [...written] }, loaded.tasks, task);
    const bound = this.#bind(graph, loaded.tuple);
    const saver = new TaskSaver(bound, {
      taskId: task.id,
      tuple,
      onWrites: (channels) => {
        this.#written = channels;
        this.#drain.requestDrain('the task has ended');
      },
    });
    const { startToCloseTimeout } = graph.activityNodes.policy(task.name);
    const onDrain = () => this.#drain.requestDrain('the worker drains');
    const onCancel = () => this.#stop.abort(new Error('the run is cancelled'));
    this.#control.draining.addEventListener('abort', onDrain);
    this.#control.cancelled.addEventListener('abort', onCancel);
    if (this.#control.draining.aborted) onDrain();
    if (this.#control.cancelled.aborted) onCancel();
    const timer =
      startToCloseTimeout === undefined
        ? undefined
        : setTimeout(() => {
            this.#timedOut = new NodeTimeoutError(task.name, startToCloseTimeout);
            this.#stop.abort(this.#timedOut);
          }, startToCloseTimeout);
    let failed: unknown;
    try {
      const context = runContext(this.#options, this.#request, this.#begun, {
        saver: bound,
        fence: this.#request.fence,
        forkSteps: forkStepsOf(loaded.tuple),
        tools: graph.tools,
        signal: this.#stop.signal,
        fail: (error: Error) => {
          this.#broken ??= error;
          this.#stop.abort(error);
        },
      });
      await withRunContext(context, () => this.#stream(graph, saver, task, written));
    } catch (error) {
      if (!(error instanceof Error && error.name === 'GraphDrained')) failed = error;
    } finally {
      clearTimeout(timer);
      this.#control.draining.removeEventListener('abort', onDrain);
      this.#control.cancelled.removeEventListener('abort', onCancel);
    }
    if (this.#broken) throw this.#broken;
    const machinery = bound.failure ?? findMachineryError(failed);
    if (machinery && findMachineryError(machinery)) throw machinery;
    if (bound.failure && failed === undefined) failed = bound.failure;
    await saver.stored();
    faultPoint('task:stored');
    return this.#outcome(graph, task, saver, failed);
  }

  async #outcome(
    graph: LoadedGraph,
    task: PlannedTask,
    saver: TaskSaver,
    failed: unknown,
  ): Promise<TaskOutcome> {
    if (failed === undefined) {
      if (this.#written.includes('__interrupt__')) return 'interrupted';
      if (this.#written.length > 0) return 'done';
      // Stopped before the task began, or between the nodes of a subgraph.
      return 'handed_back';
    }
    if (this.#control.cancelled.aborted && !this.#timedOut) return 'cancelled';
    const error = this.#timedOut ?? failed;
    const judged = judgeTask({
      definition: graph,
      config: this.#begun.config,
      threadId: this.#request.thread_id,
      node: task.name,
      error,
      attempts: this.#begun.errors + 1,
    });
    const recorded = await recordTaskError(
      this.#options.database,
      this.#request.tenant_id,
      { ...this.#request, token: this.#token },
      judged.error,
    );
    if (!recorded) return 'overtaken';
    if (judged.delayMs !== undefined)
      throw new TaskFailure(task.name, error, { retryAfterMs: judged.delayMs });
    if (!hasErrorHandler(graph, task.name)) throw new TaskFailure(task.name, error, {});
    const { name, message } = judged.error;
    await saver.putWrites(
      this.#at(),
      [
        ['__error__', { message, name }],
        ['__error_source_node__', task.name],
      ],
      task.id,
    );
    return 'done';
  }

  async #stream(
    graph: LoadedGraph,
    saver: TaskSaver,
    task: PlannedTask,
    written: readonly CheckpointPendingWrite[],
  ): Promise<void> {
    const own = graphForTask(graph.graph, task.name);
    own.checkpointer = saver;
    const input = await this.#answers(task, written);
    const settings = streamSettings(this.#begun, { signal: this.#stop.signal, control: this.#drain });
    for await (const _chunk of await own.stream(input, settings));
  }

  /** The answers that the task has not taken yet, or null. */
  async #answers(task: PlannedTask, written: readonly CheckpointPendingWrite[]): Promise<Command | null> {
    const asked = new Set(questionsOf(written));
    if (asked.size === 0) return null;
    const run = { run_id: this.#request.run_id, head_checkpoint_id: this.#request.checkpoint_id };
    const given = await givenAnswers(this.#options.database, this.#request.tenant_id, run);
    const open = given.filter((answer) => asked.has(answer.interrupt_id));
    if (open.length === 0) return null;
    return new Command({
      resume: Object.fromEntries(open.map(({ interrupt_id, answer }) => [interrupt_id, answer])),
    });
  }

  #at() {
    const { checkpoint_id } = this.#request;
    const { checkpoint_thread_id } = this.#begun;
    return { configurable: { thread_id: checkpoint_thread_id, checkpoint_ns: '', checkpoint_id } };
  }

  #bind(graph: LoadedGraph, tuple: CheckpointTuple): BoundSaver {
    const begun = this.#begun;
    return this.#options.saver.bind({
      threadId: begun.checkpoint_thread_id,
      tenantId: this.#request.tenant_id,
      publicThreadId: this.#request.thread_id,
      fence: this.#request.fence,
      graphVersion: graphRef(graph.name, graph.version),
      runId: this.#request.run_id,
      head: begun.head_checkpoint_id,
      stateVersion: begun.state_version,
      forkSteps: forkStepsOf(tuple),
      nextNodes: nextNodesOf(graph.graph),
      task: { id: this.#request.task_id, token: this.#token },
    });
  }
}

/** How many steps on the way to a checkpoint are forks' own: its step less its superstep. */
function forkStepsOf({ metadata }: CheckpointTuple): number {
  const superstep: unknown = metadata && 'superstep' in metadata ? metadata.superstep : undefined;
  return metadata && typeof superstep === 'number' ? metadata.step - superstep : 0;
}
