import { z } from 'zod';

/**
 * How a node whose error may pass is tried again by the runtime. All optional; durations in ms. A `retryPolicy` that
 * the graph itself gives a node comes first, and what is left after it counts as one attempt here.
 */
export const retryPolicy = z.strictObject({
  /** The pause after the first failed attempt. Default 1,000. */
  initial_interval_ms: z.int().min(1).max(86_400_000).optional(),
  /** What each further pause is multiplied by. Default 2. */
  backoff_coefficient: z.number().min(1).max(100).optional(),
  /** The longest pause. Default 60,000. */
  maximum_interval_ms: z.int().min(1).max(86_400_000).optional(),
  /** Attempts in all, the first included; 1 never tries again. Default 5. */
  maximum_attempts: z.int().min(1).max(1_000).optional(),
  /**
   * The longest pause that a far side may ask for by `retry-after`; what asks for more ends the run at once, as
   * waiting for less would be in vain. Default 3,600,000: an hour.
   */
  maximum_retry_after_ms: z.int().min(0).max(604_800_000).optional(),
});
export type RetryPolicy = z.infer<typeof retryPolicy>;

/** A policy with every field set. */
export type FullRetryPolicy = { [field in keyof RetryPolicy]-?: number };

export const DEFAULT_RETRY: FullRetryPolicy = {
  initial_interval_ms: 1_000,
  backoff_coefficient: 2,
  maximum_interval_ms: 60_000,
  maximum_attempts: 5,
  maximum_retry_after_ms: 3_600_000,
};

/** @param attempts How many have failed, at least 1. @returns the pause before the next one, in ms. */
export function backoff(policy: FullRetryPolicy, attempts: number): number {
  const { initial_interval_ms: first, backoff_coefficient: factor, maximum_interval_ms: longest } = policy;
  return Math.min(first * factor ** (attempts - 1), longest);
}
