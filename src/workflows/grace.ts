import { condition, sleep } from '@temporalio/workflow';

/** How long an idle thread keeps its workflow open, in ms. */
const GRACE_MS = 60_000;

/** Waits while a thread is idle. One timer serves many short waits: each one set and cancelled stays in the history. */
export class Grace {
  #running = false;

  /** @returns false when `holds` was not true for the whole of the grace time. */
  async await(holds: () => boolean): Promise<boolean> {
    const end = Date.now() + GRACE_MS;
    while (!holds()) {
      const left = end - Date.now();
      if (left <= 0) return false;
      if (!this.#running) this.#start(left);
      await condition(() => holds() || !this.#running);
    }
    return true;
  }

  #start(ms: number): void {
    const stopped = () => {
      this.#running = false;
    };
    this.#running = true;
    // It fails only when the workflow is cancelled, which whoever waits is told of by itself.
    sleep(ms).then(stopped, stopped);
  }
}
