import type { Batch, WriteRow } from './values.ts';

type Held = {
  checkpointId: string;
  rows: Promise<Batch<WriteRow>>;
  resolve(): void;
  reject(error: unknown): void;
};

/**
 * Writes of a superstep's last task, kept for a moment so that they travel with the checkpoint that follows.
 *
 * LangGraph puts that checkpoint in the same turn of the event loop. Where it doesn't come, the writes are stored on
 * their own as soon as the loop turns, so a finished task is never in memory only for longer than that. While the
 * checkpoint that they belong to is itself being stored, they wait for that: without it they are worth nothing.
 */
export class HeldWrites {
  readonly #store: (rows: Batch<WriteRow>) => Promise<void>;
  #held: Held[] = [];
  #timer: NodeJS.Immediate | undefined;
  #checkpointsUnderWay = 0;

  constructor(store: (rows: Batch<WriteRow>) => Promise<void>) {
    this.#store = store;
  }

  /** Settles when the writes are stored, in whichever way, or could not be. */
  hold(checkpointId: string, rows: Promise<Batch<WriteRow>>): Promise<void> {
    // Whoever stores them meets the error; until then it must not count as unhandled.
    rows.catch(() => undefined);
    const stored = new Promise<void>((resolve, reject) => {
      this.#held.push({ checkpointId, rows, resolve, reject });
    });
    this.#schedule();
    return stored;
  }

  /** Keeps what is held until `checkpoint` has settled. */
  async during<T>(checkpoint: () => Promise<T>): Promise<T> {
    this.#checkpointsUnderWay += 1;
    this.#clear();
    try {
      return await checkpoint();
    } finally {
      this.#checkpointsUnderWay -= 1;
      this.#schedule();
    }
  }

  #schedule(): void {
    if (this.#held.length > 0 && this.#checkpointsUnderWay === 0)
      this.#timer ??= setImmediate(() => this.#flush());
  }

  /** Hands over the writes made under `checkpointId`; whoever takes them must settle them. */
  take(checkpointId: string | null): Held[] {
    const taken = this.#held.filter((held) => held.checkpointId === checkpointId);
    if (taken.length === 0) return taken;
    this.#held = this.#held.filter((held) => held.checkpointId !== checkpointId);
    if (this.#held.length === 0) this.#clear();
    return taken;
  }

  /** Stores writes that were taken but could not travel. */
  storeAlone(taken: readonly Held[]): void {
    for (const held of taken)
      held.rows.then((rows) => this.#store(rows)).then(() => held.resolve(), held.reject.bind(held));
  }

  #flush(): void {
    this.#timer = undefined;
    const held = this.#held;
    this.#held = [];
    this.storeAlone(held);
  }

  #clear(): void {
    if (this.#timer) clearImmediate(this.#timer);
    this.#timer = undefined;
  }
}
