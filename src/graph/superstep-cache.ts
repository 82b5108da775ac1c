import type { CheckpointTuple } from '@langchain/langgraph-checkpoint';
import type { PlannedTask } from './superstep.ts';

/** A root checkpoint and the tasks that are planned from it; its pending writes are as old as the entry. */
export type LoadedSuperstep = { tuple: CheckpointTuple; tasks: PlannedTask[] };

const MAX_ENTRIES = 8;
/** How long an entry is kept after it was last used, in ms. */
const MAX_IDLE = 10_000;

/** Supersteps whose tasks a process is at work on: each is read once, and not again for every task. */
export class SuperstepCache {
  readonly #entries = new Map<string, { loaded: Promise<LoadedSuperstep>; forget: NodeJS.Timeout }>();

  get(key: string, load: () => Promise<LoadedSuperstep>): Promise<LoadedSuperstep> {
    const known = this.#entries.get(key);
    if (known) {
      known.forget.refresh();
      return known.loaded;
    }
    const loaded = load();
    const forget = setTimeout(() => this.#entries.delete(key), MAX_IDLE).unref();
    this.#entries.set(key, { loaded, forget });
    loaded.catch(() => this.#drop(key));
    const oldest = this.#entries.keys().next().value;
    if (this.#entries.size > MAX_ENTRIES && oldest !== undefined) this.#drop(oldest);
    return loaded;
  }

  #drop(key: string): void {
    clearTimeout(this.#entries.get(key)?.forget);
    this.#entries.delete(key);
  }
}
