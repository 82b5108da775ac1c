import type { Checkpoint } from '@langchain/langgraph-checkpoint';
import { InvalidInputError } from '../contracts/errors.ts';
import { checkId } from './jsonb-text.ts';
import type { Configurable } from './reader.ts';

/** One attempt of the runtime to advance one thread. */
export type Attempt = {
  /** The thread's key in LangGraph's tables: `checkpoint_thread_id` of the table `threads`. */
  threadId: string;
  tenantId: string;
  /** The thread's id as people know it; named in errors. */
  publicThreadId: string;
  /** Taken by `UPDATE threads SET fence = fence + 1`. */
  fence: bigint | number;
  /** `refund-flow@17` */
  graphVersion: string;
  runId: string;
  /** The newest root checkpoint when the fence was taken (`threads.head_checkpoint_id`). */
  head: string | null;
  /** `threads.state_version` then. */
  stateVersion: number;
  /**
   * An older checkpoint that the attempt's first root checkpoint may be made from, for time travel. Null: none, the
   * attempt begins anew with an empty state.
   */
  forkFrom?: string | null;
  /** How many steps LangGraph has counted for forks on the way: `superstep` is its step less these. Default 0. */
  forkSteps?: number;
  /** The names of the tasks that LangGraph plans from a root checkpoint, one entry a task. */
  nextNodes(checkpoint: Checkpoint, channelValues: Readonly<Record<string, unknown>>): string[];
  /** Set where the attempt is on one task alone: its writes are stored only while the token is the task's newest. */
  task?: { id: string; token: string };
  /** Called after a checkpoint is stored. */
  onCheckpoint?(info: CheckpointInfo): void;
};

export type CheckpointInfo = { checkpointId: string; step: number; checkpointNs: string };

/** Where a question was asked: the task whose pending writes hold it. */
export type InterruptOrigin = { checkpointNs: string; checkpointId: string; taskId: string };

/**
 * The namespace that a config names, and the checkpoint in it.
 * @throws InvalidInputError when it is for another thread.
 */
export function placeIn(
  { threadId, publicThreadId }: Attempt,
  config: Configurable,
): { ns: string; parentId: string | null } {
  const {
    thread_id: named,
    checkpoint_ns: ns = '',
    checkpoint_id: id,
  } = (config.configurable ?? {}) as Record<string, unknown>;
  if (checkId('thread_id', named) !== threadId)
    throw new InvalidInputError(
      `This saver is bound to thread '${publicThreadId}' and can't write to another.`,
      { thread_id: publicThreadId, other: named },
    );
  return {
    ns: typeof ns === 'string' ? ns : '',
    parentId: id === undefined || id === null || id === '' ? null : checkId('checkpoint_id', id),
  };
}
