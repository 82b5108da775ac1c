import type { Checkpoint } from '@langchain/langgraph-checkpoint';
import type { BoundSaver } from '../checkpoint/saver.ts';
import type { ErrorRecord } from '../contracts/json.ts';
import type { AdvanceRequest, DueTasks, FailedTasks } from '../contracts/thread-workflow.ts';
import type { Database } from '../postgres/database.ts';
import type { ClaimedRun } from '../threads/segment.ts';
import { forgetTaskAttempts, taskErrors } from '../threads/task-attempts.ts';
import { handOut, standingOf, tupleOf } from './due-tasks.ts';
import { startPoint, hasMoved } from './fork.ts';
import type { LoadedGraph } from './load-graphs.ts';
import { nextNodesOf } from './next-nodes.ts';
import { plannedTasks, type PlannedTask } from './superstep.ts';

/** Why a segment can't let LangGraph go on with the superstep in hand. */
export type NextTasks =
  /** Tasks have to run as activities first. */
  | { due: DueTasks }
  /** All have ended that can; the others wait for answers. */
  | { waiting: true }
  /** One failed for good. */
  | { failed: ErrorRecord };

/** The supersteps of one segment whose tasks run as activities. */
export class Supersteps {
  readonly #database: Database;
  readonly #request: AdvanceRequest;
  readonly #run: ClaimedRun;
  readonly #graph: LoadedGraph;
  /** The newest checkpoint that was made, if its tasks run as activities. */
  #due: Checkpoint | undefined;
  /** The newest one that this segment stored, if so. */
  #reached: Checkpoint | undefined;

  constructor(database: Database, request: AdvanceRequest, run: ClaimedRun, graph: LoadedGraph) {
    this.#database = database;
    this.#request = request;
    this.#run = run;
    this.#graph = graph;
  }

  /** LangGraph loaded, or is about to store, a root checkpoint. */
  planned(names: readonly string[], checkpoint: Checkpoint): void {
    this.#due = this.#graph.activityNodes.isDue(names, checkpoint) ? checkpoint : undefined;
  }

  /** @returns whether the tasks that are planned at the checkpoint that was just stored run as activities. */
  reached(checkpointId: string): boolean {
    this.#reached = this.#due?.id === checkpointId ? this.#due : undefined;
    return this.#reached !== undefined;
  }

  /** Where the thread stands before LangGraph goes on from its newest checkpoint; undefined where nothing is in its way. */
  async atHead(saver: BoundSaver, failed: FailedTasks | undefined): Promise<NextTasks | undefined> {
    const { kind, head_checkpoint_id: head } = this.#run;
    const fromHead =
      head !== null && startPoint(this.#run) === undefined && (kind !== 'input' || hasMoved(this.#run));
    if (!fromHead) return undefined;
    const tuple = await saver.getTuple(this.#at(head));
    if (!tuple || !this.#isDue(tuple.checkpoint)) return undefined;
    const planned = await plannedTasks(this.#graph.graph, tuple, saver);
    const { tenant_id, thread_id } = this.#request;
    const standing = await standingOf(
      this.#database,
      tenant_id,
      thread_id,
      this.#graph,
      planned,
      tuple.pendingWrites ?? [],
    );
    if (failed?.run_id === this.#run.run_id) {
      const error = await this.#errorOf(failed, standing.due);
      if (error) return { failed: error };
    }
    const { due, waiting } = standing;
    if (due.length > 0) return { due: this.#handOut(head, due, due.length + waiting.length) };
    await forgetTaskAttempts(this.#database, tenant_id, thread_id, this.#run.fence);
    return waiting.length > 0 ? { waiting: true } : undefined;
  }

  /** Whether a fork at a checkpoint begins with tasks that run as activities. */
  async beginsWithTasks(saver: BoundSaver, checkpointId: string | undefined): Promise<boolean> {
    if (checkpointId === undefined) return false;
    const tuple = await saver.getTuple(this.#at(checkpointId));
    return tuple !== undefined && this.#isDue(tuple.checkpoint);
  }

  #at(checkpointId: string) {
    const { checkpoint_thread_id: thread_id } = this.#run;
    return { configurable: { thread_id, checkpoint_ns: '', checkpoint_id: checkpointId } };
  }

  #isDue(checkpoint: Checkpoint): boolean {
    return this.#graph.activityNodes.isDue(nextNodesOf(this.#graph.graph)(checkpoint), checkpoint);
  }

  /** The tasks that the segment stopped for; undefined when it stopped for something else. */
  async afterDrain(saver: BoundSaver): Promise<DueTasks | undefined> {
    const checkpoint = this.#reached;
    if (checkpoint === undefined || checkpoint.id !== saver.head) return undefined;
    const step = (saver.stepOf('') ?? 0) - 1;
    const tuple = tupleOf(this.#run.checkpoint_thread_id, checkpoint, step);
    const planned = await plannedTasks(this.#graph.graph, tuple, saver);
    return planned.length > 0 ? this.#handOut(checkpoint.id, planned, planned.length) : undefined;
  }

  #handOut(checkpointId: string, due: readonly PlannedTask[], unfinished: number): DueTasks {
    const { fence, config } = this.#run;
    return handOut(
      this.#database.schema,
      this.#graph,
      { due, unfinished },
      { checkpointId, fence, maxConcurrency: config.max_concurrency },
    );
  }

  /** The error of the first that failed, in the superstep's order. */
  async #errorOf(failed: FailedTasks, left: readonly PlannedTask[]): Promise<ErrorRecord | undefined> {
    const first = left.flatMap(({ id }) => failed.tasks.find((task) => task.task_id === id) ?? [])[0];
    if (first === undefined) return undefined;
    const { tenant_id, thread_id } = this.#request;
    const recorded = await taskErrors(this.#database, tenant_id, thread_id, failed.run_id);
    return recorded.get(first.task_id) ?? { name: first.name, message: first.message };
  }
}
