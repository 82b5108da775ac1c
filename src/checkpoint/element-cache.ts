import type { Element } from './element.ts';

/** Characters of elements that one process keeps, over all threads. */
const MAX_CHARACTERS = 32 * 1024 * 1024;
/** And of one thread. */
const MAX_OF_THREAD = MAX_CHARACTERS / 2;
/** What an element takes besides its text. */
const OVERHEAD = 200;
/** Roots of a thread, see below, at most. */
const MAX_ROOTS = 256;

/**
 * The elements of a thread that were read before. Whatever a root refers to, at any depth, is among them, so a reading
 * statement that is told the roots sends neither them nor what is below them.
 */
export type CachedThread = { elements: Map<string, Element>; roots: readonly string[]; characters: number };

/**
 * Elements by thread, as text: what one read needs and the next one needs again. The threads that were read last stay.
 * It says nothing about what is stored now.
 */
export class ElementCache {
  readonly #threads = new Map<string, CachedThread>();
  #characters = 0;

  get(threadId: string): CachedThread {
    return this.#threads.get(threadId) ?? { elements: new Map(), roots: [], characters: 0 };
  }

  /**
   * @param roots the references of the values that were read: all that is below them is in `before` or in `fetched`.
   */
  keep(
    threadId: string,
    before: CachedThread,
    fetched: ReadonlyMap<string, Element>,
    roots: readonly string[],
  ): void {
    if (roots.length === 0) return;
    const current = this.#threads.get(threadId);
    // Another read of the same thread came in between: what it kept need not have what this one relied on.
    if (current && current !== before) return;
    for (const [hash, element] of fetched) {
      if (before.elements.has(hash)) continue;
      before.elements.set(hash, element);
      const size = element.text.length + element.refs.length * 40 + OVERHEAD;
      before.characters += size;
      if (current) this.#characters += size;
    }
    if (!current) this.#characters += before.characters;
    this.#threads.delete(threadId);
    this.#threads.set(threadId, before);
    before.roots = [...new Set([...roots, ...before.roots])].slice(0, MAX_ROOTS);
    if (before.characters > MAX_OF_THREAD) this.forget(threadId);
    for (const oldest of this.#threads.keys()) {
      if (this.#characters <= MAX_CHARACTERS) break;
      this.forget(oldest);
    }
  }

  forget(threadId: string): void {
    this.#characters -= this.#threads.get(threadId)?.characters ?? 0;
    this.#threads.delete(threadId);
  }
}
