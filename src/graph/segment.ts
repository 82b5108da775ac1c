import { setMaxListeners } from 'node:events';
import { RunControl } from '@langchain/langgraph';
import { graphRef } from '../contracts/ids.ts';
import type {
  AdvanceRequest,
  AdvanceResult,
  DueTasks,
  SegmentHeartbeat,
} from '../contracts/thread-workflow.ts';
import type { BoundSaver, PerdureSaver } from '../checkpoint/saver.ts';
import { withRunContext } from '../operations/run-context.ts';
import { faultPoint } from '../telemetry/fault-points.ts';
import { askedToEndAs } from '../threads/cancel.ts';
import { postponeRun } from '../threads/postpone-run.ts';
import { beginSegment, finishSegment, type ClaimedRun, type SegmentEnd } from '../threads/segment.ts';
import { askedInterrupts, withDeadline } from './asked-interrupts.ts';
import { DeltaOutput } from './delta-output.ts';
import { judgeFailure, type Retry } from './failure.ts';
import { beginsBranch, branchOf, forkSteps, hasMoved, startPoint } from './fork.ts';
import { beginAt, beginInSubgraph, subgraphFork, type SubgraphFork } from './fork-subgraph.ts';
import { findMachineryError } from './machinery.ts';
import { nextNodesOf } from './next-nodes.ts';
import { nothingDue, type NothingDueOptions } from './nothing-due.ts';
import { OwnTaskWatch } from './own-task.ts';
import type { GraphRegistry } from './registry.ts';
import { runContext, streamSettings } from './run-settings.ts';
import { lastSuperstep, recursionError, segmentInput } from './segment-input.ts';
import { stopsAtHead } from './static-interrupts.ts';
import type { LoadedGraph } from './load-graphs.ts';
import { Supersteps, type NextTasks } from './supersteps.ts';
import { TaskFailure } from './task-failure.ts';

export type SegmentRunnerOptions = NothingDueOptions & {
  graphs: GraphRegistry;
  saver: PerdureSaver;
  workerId: string;
  /** How long a segment works before it hands over at the next superstep, in ms. */
  budgetMs: number;
};

/** How the outside steers a segment and watches it. */
export type SegmentControl = {
  /** Aborted when the segment is to stop at once. */
  cancelled: AbortSignal;
  /** Aborted when it is to hand over at the next superstep. */
  draining: AbortSignal;
  heartbeat(details: SegmentHeartbeat): void;
};

export type SegmentRunner = (request: AdvanceRequest, control: SegmentControl) => Promise<AdvanceResult>;

/** How often a segment gives a sign of life, in ms. */
export const HEARTBEAT_MS = 500;

/** Advances a thread's oldest unfinished run over as many supersteps as it may. */
export function createSegmentRunner(options: SegmentRunnerOptions): SegmentRunner {
  return async (request, control) => {
    const { tenant_id: tenant, thread_id: thread, version } = request;
    const run = await beginSegment(options.database, tenant, thread, version);
    if (!run) return nothingDue(options, request);
    faultPoint('segment:begun');
    return new Segment(options, request, control, run).advance();
  };
}

type Ended = Omit<SegmentEnd, 'run_id' | 'fence' | 'checkpoint_id'>;
type Outcome = Ended | Retry | DueTasks | 'handed_over';

/** One attempt on one run. */
class Segment {
  readonly #options: SegmentRunnerOptions;
  readonly #request: AdvanceRequest;
  readonly #control: SegmentControl;
  readonly #run: ClaimedRun;
  readonly #stop = new AbortController();
  readonly #drain = new RunControl();
  #output: DeltaOutput | undefined;
  /** The number of the superstep in hand, less one: that of the newest root checkpoint. */
  #step: number;
  #budgetSpent = false;
  /** Undefined where no node of the graph runs as an activity. */
  #supersteps: Supersteps | undefined;
  /** The task whose activity this segment runs in, until it has ended. */
  #ownTask: OwnTaskWatch | undefined;
  /** An error of the machinery met inside a node, where the graph's own code may have swallowed it. */
  #broken: Error | undefined;

  constructor(
    options: SegmentRunnerOptions,
    request: AdvanceRequest,
    control: SegmentControl,
    run: ClaimedRun,
  ) {
    this.#options = options;
    this.#request = request;
    this.#control = control;
    this.#run = run;
    this.#step = (startPoint(run) === undefined ? run.head_step : run.base_step) ?? -2;
    // Every parallel task listens.
    setMaxListeners(0, this.#stop.signal);
  }

  async advance(): Promise<AdvanceResult> {
    if (this.#run.cancel_requested)
      return this.#finish(
        { status: this.#run.stop_as ?? 'cancelled', supersede: 'none' },
        this.#run.head_checkpoint_id,
      );
    const graph = this.#options.graphs.get(this.#request.graph, this.#request.version);
    if (graph.activityNodes.any)
      this.#supersteps = new Supersteps(this.#options.database, this.#request, this.#run, graph);
    const notCounted = await forkSteps(this.#options.saver, graph.graph, this.#run);
    const saver = this.#bind(graph, notCounted);
    const beat = () =>
      this.#control.heartbeat({ run_id: this.#run.run_id, checkpoint_id: saver.head, step: this.#step });
    beat();
    const beating = setInterval(beat, HEARTBEAT_MS);
    try {
      const ended = await this.#execute(graph, saver, notCounted);
      const going = { run_id: this.#run.run_id, more: true };
      if (ended === 'handed_over') return { outcome: ended, ...going };
      if ('tasks' in ended) {
        if (ended.alone) saver.leave();
        return { outcome: 'tasks', ...going, due: ended };
      }
      const result = 'delayMs' in ended ? await this.#postpone(ended) : await this.#end(ended, saver.head);
      if (this.#ownTask?.failed) throw new TaskFailure(this.#ownTask.node, this.#ownTask.failed, { result });
      return result;
    } finally {
      clearInterval(beating);
    }
  }

  async #end(ended: Ended, head: string | null): Promise<AdvanceResult> {
    faultPoint('segment:ending');
    const result = await this.#finish(ended, head);
    faultPoint('segment:finished');
    return result;
  }

  #bind(graph: LoadedGraph, notCounted: number): BoundSaver {
    const forkFrom = startPoint(this.#run);
    const nextNodes = nextNodesOf(graph.graph);
    return this.#options.saver.bind({
      threadId: this.#run.checkpoint_thread_id,
      tenantId: this.#request.tenant_id,
      publicThreadId: this.#request.thread_id,
      fence: this.#run.fence,
      graphVersion: graphRef(graph.name, graph.version),
      runId: this.#run.run_id,
      head: this.#run.head_checkpoint_id,
      stateVersion: this.#run.state_version,
      forkSteps: notCounted,
      ...(forkFrom === undefined ? {} : { forkFrom }),
      nextNodes: (checkpoint) => {
        const planned = nextNodes(checkpoint);
        this.#supersteps?.planned(planned, checkpoint);
        return planned;
      },
      onCheckpoint: ({ checkpointId, checkpointNs, step }) => {
        if (checkpointNs === '') this.#reached(step, checkpointId);
      },
    });
  }

  /** A root checkpoint is stored: the only place where a budget or a limit ends the segment, so that each has progress. */
  #reached(step: number, checkpointId: string): void {
    this.#step = step;
    this.#ownTask?.ended();
    faultPoint(`superstep:${step}`);
    if (this.#supersteps?.reached(checkpointId)) this.#drain.requestDrain('tasks have to run as activities');
    if (this.#budgetSpent) this.#drain.requestDrain('the time budget is spent');
    if (this.#overLimit()) this.#drain.requestDrain('the recursion limit is reached');
  }

  /** LangGraph counts the supersteps of one call; a run may be several. */
  #overLimit(): boolean {
    return this.#step + 1 > lastSuperstep(this.#run);
  }

  /** Runs LangGraph and says how the run ended, or that it was handed over. Errors of the machinery are thrown. */
  async #execute(graph: LoadedGraph, saver: BoundSaver, notCounted: number): Promise<Outcome> {
    const onDrain = () => this.#drain.requestDrain('the worker drains');
    const onCancel = () => this.#stop.abort(new Error('the run is cancelled'));
    this.#control.draining.addEventListener('abort', onDrain);
    this.#control.cancelled.addEventListener('abort', onCancel);
    if (this.#control.draining.aborted) onDrain();
    if (this.#control.cancelled.aborted) onCancel();
    const budget = setTimeout(() => {
      this.#budgetSpent = true;
    }, this.#options.budgetMs);
    try {
      if (this.#overLimit()) throw recursionError(this.#run);
      const inside = this.#insideSubgraph(this.#own(graph, saver));
      if (inside && hasMoved(this.#run)) await beginInSubgraph(inside);
      let interrupted = await this.#stoppedBefore(graph, saver);
      if (!interrupted) {
        const next = await this.#nextTasks(graph, saver);
        if (next && 'due' in next) return next.due;
        if (next && 'failed' in next)
          return { status: 'error', error: next.failed, supersede: this.#supersedes(saver.head) };
        interrupted =
          next !== undefined ||
          (await withRunContext(this.#context(graph, saver, notCounted), () => this.#stream(graph, saver)));
      }
      if (this.#broken) throw this.#broken;
      if (!interrupted && this.#overLimit()) throw recursionError(this.#run);
      if (!interrupted) return await this.#succeeded(graph, saver);
      const { asked, next, unasked } = await askedInterrupts(
        this.#own(graph, saver),
        saver,
        this.#run.checkpoint_thread_id,
        saver.head ?? '',
      );
      // A stop after the last node leaves nothing to go on with.
      if (next.length === 0) return await this.#succeeded(graph, saver);
      // Beside a task that asks, the drain stopped a subgraph: its work is not done.
      if (this.#drain.drainRequested && asked.length > 0 && unasked) return 'handed_over';
      const deadline = this.#run.config.deadline ?? graph.deadline;
      return { status: 'interrupted', supersede: 'others', asked: withDeadline(asked, deadline), next };
    } catch (error) {
      return await this.#afterError(graph, this.#broken ?? error, saver);
    } finally {
      clearTimeout(budget);
      this.#ownTask?.ended();
      this.#control.draining.removeEventListener('abort', onDrain);
      this.#control.cancelled.removeEventListener('abort', onCancel);
    }
  }

  /** Whether an earlier attempt came to a static interrupt, and could not record it. */
  async #stoppedBefore(graph: LoadedGraph, saver: BoundSaver): Promise<boolean> {
    const { attempts, checkpoint_thread_id: threadId, config } = this.#run;
    return attempts > 1 && hasMoved(this.#run) && stopsAtHead(graph.graph, saver, threadId, config);
  }

  async #succeeded(graph: LoadedGraph, saver: BoundSaver): Promise<Ended> {
    const output = this.#output ?? new DeltaOutput(graph.graph);
    await output.keep(saver, this.#run.checkpoint_thread_id);
    return { status: 'success', supersede: 'others' };
  }

  /** The user's graph with this attempt's saver in place of its own; the original is not touched. */
  #own(graph: LoadedGraph, saver: BoundSaver): LoadedGraph['graph'] {
    const own: LoadedGraph['graph'] = graph.graph.withConfig({});
    own.checkpointer = saver;
    return own;
  }

  #input(saver: BoundSaver): Promise<unknown> {
    return segmentInput(this.#options.database, this.#request.tenant_id, this.#run, (answer, earlier) => {
      const { origin_ns: checkpointNs, origin_checkpoint_id: checkpointId, origin_task_id: taskId } = answer;
      return saver.isAsked(answer.interrupt_id, { checkpointNs, checkpointId, taskId }, earlier);
    });
  }

  /** @returns whether LangGraph stopped at an interrupt, dynamic or static. */
  async #stream(graph: LoadedGraph, saver: BoundSaver): Promise<boolean> {
    const input = await this.#input(saver);
    const settings = streamSettings(this.#run, { signal: this.#stop.signal, control: this.#drain });
    const own = this.#own(graph, saver);
    const point = startPoint(this.#run);
    const from =
      point === undefined || point === null
        ? {}
        : await beginAt(own, saver, this.#run, point, this.#insideSubgraph(own));
    // LangGraph goes on while the checkpoint that begins the branch is being stored.
    if (this.#run.kind === 'fork' && (await this.#supersteps?.beginsWithTasks(saver, from.checkpoint_id)))
      this.#drain.requestDrain('tasks have to run as activities');
    const output = new DeltaOutput(graph.graph);
    this.#output = output;
    let interrupted = false;
    for await (const chunk of await own.stream(input, {
      ...settings,
      streamMode: output.streamMode,
      configurable: { ...settings.configurable, ...from },
    })) {
      const update = output.update(chunk);
      if (typeof update === 'object' && update !== null && '__interrupt__' in update) interrupted = true;
    }
    return interrupted;
  }

  #insideSubgraph(own: LoadedGraph['graph']): SubgraphFork | undefined {
    const { database, saver: reader } = this.#options;
    return subgraphFork({ database, reader, graph: own, run: this.#run, threadId: this.#request.thread_id });
  }

  #context(graph: LoadedGraph, saver: BoundSaver, notCounted: number) {
    return runContext(this.#options, this.#request, this.#run, {
      saver,
      fence: this.#run.fence,
      forkSteps: notCounted,
      tools: graph.tools,
      signal: this.#stop.signal,
      fail: (error: Error) => {
        this.#broken ??= error;
        this.#stop.abort(error);
      },
    });
  }

  /** What of the superstep in hand keeps LangGraph from going on with it here. Undefined: nothing. */
  async #nextTasks(graph: LoadedGraph, saver: BoundSaver): Promise<NextTasks | undefined> {
    if (!this.#supersteps) return undefined;
    const { own_task: own, failed } = this.#request;
    if (own && own.run_id === this.#run.run_id && own.checkpoint_id === this.#run.head_checkpoint_id) {
      this.#ownTask = new OwnTaskWatch(graph, own, this.#stop);
      return undefined;
    }
    // Refuses an answer whose turn came too late.
    if (this.#run.kind === 'resume' && this.#run.attempts === 1) await this.#input(saver);
    return this.#supersteps.atHead(saver, failed);
  }

  async #afterError(graph: LoadedGraph, error: unknown, saver: BoundSaver): Promise<Outcome> {
    const drained = error instanceof Error && error.name === 'GraphDrained';
    if (drained && !this.#overLimit()) return (await this.#supersteps?.afterDrain(saver)) ?? 'handed_over';
    const machinery = saver.failure ?? findMachineryError(error);
    if (machinery && findMachineryError(machinery)) throw machinery;
    if (this.#control.cancelled.aborted) {
      const stopped = await askedToEndAs(this.#options.database, this.#request.tenant_id, this.#run.run_id);
      if (stopped !== undefined) return { status: stopped, supersede: 'none' };
      // The worker's time is up, or the cancel was for a run that has ended: this one goes on elsewhere.
      return 'handed_over';
    }
    const failure = await judgeFailure({
      definition: graph,
      graph: this.#own(graph, saver),
      threadId: this.#request.thread_id,
      run: this.#run,
      head: saver.head,
      error: drained ? recursionError(this.#run) : (this.#ownTask?.failedWith(error) ?? error),
    });
    if (failure.retry !== undefined) return failure.retry;
    return { status: 'error', error: failure.error, supersede: this.#supersedes(saver.head) };
  }

  /** After new input, or in a new branch, no older question can be answered; after an answer its siblings still can. */
  #supersedes(head: string | null): 'others' | 'none' {
    return this.#run.kind === 'input' || this.#begunBranch(head) ? 'others' : 'none';
  }

  async #postpone(retry: Retry): Promise<AdvanceResult> {
    const { run_id, fence } = this.#run;
    const { tenant_id, thread_id } = this.#request;
    await postponeRun(this.#options.database, tenant_id, thread_id, { run_id, fence, ...retry });
    faultPoint('segment:postponed');
    return { outcome: 'retry', run_id, more: true, retry_in_ms: retry.delayMs };
  }

  #begunBranch(head: string | null): boolean {
    return beginsBranch(this.#run) && hasMoved(this.#run, head);
  }

  async #finish(ended: Ended, checkpointId: string | null): Promise<AdvanceResult> {
    const end: SegmentEnd = {
      ...ended,
      run_id: this.#run.run_id,
      fence: this.#run.fence,
      checkpoint_id: checkpointId,
      branch: this.#begunBranch(checkpointId) ? branchOf(this.#run) : undefined,
    };
    const recorded = await finishSegment(
      this.#options.database,
      this.#request.tenant_id,
      this.#request.thread_id,
      end,
    );
    const { more, next_due } = recorded;
    return {
      outcome: ended.status,
      run_id: this.#run.run_id,
      ...(more ? { more } : {}),
      ...(ended.status === 'interrupted' ? { waiting: true } : {}),
      ...(next_due === null ? {} : { next_due }),
    };
  }
}
