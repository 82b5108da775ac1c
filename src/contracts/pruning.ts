import { z } from 'zod';
import { duration } from './duration.ts';

/** Checkpoints of one thread that a policy keeps at most by their number. */
const MAX_KEEP_LAST = 1_000_000;

/**
 * What pruning keeps of a thread: a root checkpoint goes when neither setting keeps it, and nothing else needs it.
 * At least one setting has to be there.
 */
export const pruningPolicy = z
  .strictObject({
    /** The newest so many root checkpoints stay. */
    keep_last: z.int().min(1).max(MAX_KEEP_LAST).optional(),
    /** Root checkpoints that are not older stay; ms, or such as `'30 days'`. */
    older_than: duration.optional(),
  })
  .refine(({ keep_last, older_than }) => keep_last !== undefined || older_than !== undefined, {
    message: 'say what to keep: how many of the last checkpoints, or from which age on they may go',
  });
export type PruningPolicy = z.infer<typeof pruningPolicy>;

/**
 * Why a root checkpoint stays: the policy; the thread stands there; a pending question was asked there; a branch ends
 * there; several branches begin there; a failed run would begin there again; a kept one's DeltaChannel is put together
 * from it.
 */
export const KEPT_REASONS = ['policy', 'head', 'question', 'branch', 'fork', 'retry', 'delta'] as const;
export type KeptReason = (typeof KEPT_REASONS)[number];

/** Rows that went, or would go, and the bytes of their values as stored (without keys and indexes). */
export type PrunedRows = {
  /** Of the root namespace and of subgraphs. */
  checkpoints: number;
  blobs: number;
  writes: number;
  elements: number;
  bytes: number;
};

export type ThreadPruning = PrunedRows & {
  thread_id: string;
  graph: string;
  /** `busy`: a run is unfinished, so nothing was touched. */
  outcome: 'pruned' | 'would_prune' | 'nothing' | 'busy';
  /** Root checkpoints that went, and those that stay, each counted under the first reason that keeps it. */
  root_checkpoints: number;
  kept: Partial<Record<KeptReason, number>>;
};
