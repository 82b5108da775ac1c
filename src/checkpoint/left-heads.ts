import type { Checkpoint, CheckpointTuple } from '@langchain/langgraph-checkpoint';
import type { Attempt } from './attempt.ts';

/** Where an attempt left its thread. */
export type LeftHead = {
  /** The attempt's own. */
  fence: number;
  /** The newest root checkpoint, with no pending writes, as LangGraph made it. */
  tuple: CheckpointTuple;
  /** Hashes of elements that the attempt has read or written. */
  stored: Set<string>;
};

/** Threads that are remembered at most; the one that was left longest ago is forgotten. */
const MAX_THREADS = 200;
/** How long one is remembered, in ms. An activity follows another within milliseconds. */
const MAX_AGE_MS = 5_000;

/**
 * Where attempts of this process left their threads, so that the next one need not read it again. It holds only for
 * the attempt that follows at once: then nobody wrote in between, for which the fence stands.
 */
export class LeftHeads {
  readonly #left = new Map<string, { head: LeftHead; forget: NodeJS.Timeout }>();

  keep(threadId: string, head: LeftHead): void {
    this.#drop(threadId);
    const forget = setTimeout(() => this.#left.delete(threadId), MAX_AGE_MS).unref();
    this.#left.set(threadId, { head, forget });
    const oldest = this.#left.keys().next().value;
    if (this.#left.size > MAX_THREADS && oldest !== undefined) this.#drop(oldest);
  }

  /** @param next the attempt that goes on. */
  take(next: Pick<Attempt, 'threadId' | 'fence' | 'head' | 'forkFrom' | 'task'>): LeftHead | undefined {
    if (next.task) return undefined;
    const left = this.#left.get(next.threadId)?.head;
    this.#drop(next.threadId);
    const goesOn = left?.fence === Number(next.fence) - 1 && left.tuple.checkpoint.id === next.head;
    return goesOn && next.forkFrom === undefined ? left : undefined;
  }

  #drop(threadId: string): void {
    clearTimeout(this.#left.get(threadId)?.forget);
    this.#left.delete(threadId);
  }
}

/** A copy of the tuple, where the config asks for it or for the newest. */
export function leftAt(
  tuple: CheckpointTuple | undefined,
  { configurable: asked }: CheckpointTuple['config'],
): CheckpointTuple | undefined {
  if (!tuple || asked?.['thread_id'] !== tuple.config.configurable?.['thread_id']) return undefined;
  const id: unknown = asked?.['checkpoint_id'];
  const isHead = id === undefined || id === '' || id === tuple.checkpoint.id;
  return isHead && (asked?.['checkpoint_ns'] ?? '') === '' ? copyOf(tuple) : undefined;
}

/** What LangGraph changes of a checkpoint that it loaded is the copy's own. */
function copyOf(tuple: CheckpointTuple): CheckpointTuple {
  const { checkpoint } = tuple;
  const copy: Checkpoint = {
    ...checkpoint,
    channel_values: { ...checkpoint.channel_values },
    channel_versions: { ...checkpoint.channel_versions },
    versions_seen: Object.fromEntries(
      Object.entries(checkpoint.versions_seen).map(([node, seen]) => [node, { ...seen }]),
    ),
  };
  return { ...tuple, checkpoint: copy };
}
