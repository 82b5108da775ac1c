import { z } from 'zod';
import { duration } from './duration.ts';
import { retryPolicy } from './retry-policy.ts';

/** How the tasks of one node are run. All fields optional. */
export const nodePolicy = z.strictObject({
  /**
   * `activity` runs each task of the node as a Temporal activity of its own, `inline` inside the segment. Default:
   * `activity` for the tool calls of LangChain agents and where another field of this policy than `retry` is set, else `inline`.
   */
  run: z.enum(['inline', 'activity']).optional(),
  /** A task queue of the node's own, served by workers that are told to. Letters, digits, `.`, `_`, `-`; at most 64. */
  taskQueue: z
    .string()
    .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/, "has letters, digits, '.', '_' and '-', at most 64")
    .refine((name) => name !== 'graphs', "can't be 'graphs', which stands for the graph's own queue")
    .optional(),
  /** How long one try of a task may take before it is stopped as an error of the node. Default: as long as it likes. */
  startToCloseTimeout: duration.optional(),
  /** How long a task may wait for a worker before it fails. Default: for ever. */
  scheduleToStartTimeout: duration.optional(),
  /** How long a silent worker is believed to be at work. Default 2 seconds, and at least that. */
  heartbeatTimeout: duration
    .refine((ms) => ms >= 2_000, "is at least 2 seconds: a worker's signs of life may be 1.5 s apart")
    .optional(),
  /** How the node is tried again when it fails. What it leaves out is the graph's policy, then the default. */
  retry: retryPolicy.optional(),
  /** How many tasks of the node run at once in one thread. Default 50. */
  concurrency: z.int().min(1).max(1_000).optional(),
});
/** As it is used: durations in ms. */
export type NodePolicy = z.output<typeof nodePolicy>;

/** By the node's name. */
export const nodePolicies = z.record(z.string(), nodePolicy);
export type NodePoliciesInput = z.input<typeof nodePolicies>;
export type NodePolicies = z.output<typeof nodePolicies>;
