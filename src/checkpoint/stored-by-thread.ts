/** Threads that are remembered at most. */
const MAX_THREADS = 100;
/** Elements of one thread; of more, all are forgotten, and brought again. */
const MAX_ELEMENTS = 100_000;

/** Which elements a saver used alone has seen stored, of the threads that it used last. */
export class StoredByThread {
  readonly #threads = new Map<string, Set<string>>();

  of(threadId: string): Set<string> {
    let stored = this.#threads.get(threadId);
    if (!stored || stored.size > MAX_ELEMENTS) stored = new Set();
    this.#threads.delete(threadId);
    this.#threads.set(threadId, stored);
    if (this.#threads.size > MAX_THREADS) this.forget(this.#threads.keys().next().value ?? '');
    return stored;
  }

  forget(threadId: string): void {
    this.#threads.delete(threadId);
  }
}
