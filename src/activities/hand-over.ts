import { setMaxListeners } from 'node:events';

/**
 * How a worker that is told to stop hands its segments over. It goes on polling until Temporal's own tasks of the runs
 * that just ended are done: Temporal gives a task also to a poll that is being withdrawn, and misses it only when the
 * task's time is over. What is handed over meanwhile is kept back, since it would come to this worker again.
 */
export class HandOver {
  readonly #draining = new AbortController();
  #release = (): void => {};
  readonly #released = new Promise<void>((resolve) => {
    this.#release = resolve;
  });
  #kept = 0;

  constructor() {
    // Every segment listens.
    setMaxListeners(0, this.#draining.signal);
  }

  /** Aborted when segments are to stop at their next superstep. */
  get draining(): AbortSignal {
    return this.#draining.signal;
  }

  /** How many segments are kept back now. */
  get kept(): number {
    return this.#kept;
  }

  begin(): void {
    this.#draining.abort();
  }

  /** The worker takes no more work. */
  release(): void {
    this.#release();
  }

  /** Returns at once in a worker that isn't stopping. */
  async keep(): Promise<void> {
    if (!this.draining.aborted) return;
    this.#kept += 1;
    await this.#released;
    this.#kept -= 1;
  }
}
