import { NodeTimeoutError } from '../contracts/errors.ts';
import type { OwnTask } from '../contracts/thread-workflow.ts';
import type { LoadedGraph } from './load-graphs.ts';

/** The task that a segment runs in the task's own activity: it heeds the time that its node may take. */
export class OwnTaskWatch {
  readonly node: string;
  readonly #taskId: string;
  readonly #timer: NodeJS.Timeout | undefined;
  #running = true;
  #timedOut: NodeTimeoutError | undefined;
  /** The error that the task ended with. */
  failed: unknown;

  constructor(graph: LoadedGraph, task: OwnTask, stop: AbortController) {
    this.node = task.node;
    this.#taskId = task.task_id;
    const timeout = graph.activityNodes.policy(task.node).startToCloseTimeout;
    if (timeout !== undefined)
      this.#timer = setTimeout(() => {
        this.#timedOut = new NodeTimeoutError(task.node, timeout);
        stop.abort(this.#timedOut);
      }, timeout);
  }

  /** The superstep of the task is stored, or LangGraph has stopped. */
  ended(): void {
    this.#running = false;
    clearTimeout(this.#timer);
  }

  /** @returns the error to be judged, where it is the task's. */
  failedWith(error: unknown): unknown {
    if (!this.#running) return undefined;
    // Its id, as LangGraph puts it on what a node throws.
    this.failed = this.#timedOut ? Object.assign(this.#timedOut, { pregelTaskId: this.#taskId }) : error;
    return this.failed;
  }
}
