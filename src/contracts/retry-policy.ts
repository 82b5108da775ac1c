import { z } from 'zod';
import { duration } from './duration.ts';

/**
 * How a node whose error may pass is tried again by the runtime. All optional; durations in ms, or as Temporal writes
 * them (`'30 seconds'`). A `retryPolicy` that the graph itself gives a node comes first: what is left of the error
 * after it counts as one attempt here. Crashes of workers count as none.
 */
export const retryPolicy = z.strictObject({
  /** Attempts in all, the first included; 1 never tries again. Default 5. */
  maximumAttempts: z.int().min(1).max(1_000_000).optional(),
  /** The pause after the first failed attempt. Default 1 second. */
  initialInterval: duration.optional(),
  /** Each pause is that many times the one before. Default 2. */
  backoffCoefficient: z.number().min(1).max(1_000).optional(),
  /** The longest pause. Default 1 minute. */
  maximumInterval: duration.optional(),
  /**
   * The longest pause that a far side may ask for by `retry-after`. One that asks for more ends the run: to wait for
   * less would be in vain. Default 1 hour.
   */
  maximumRetryAfter: duration.optional(),
});
/** As it is written. */
export type RetryPolicyInput = z.input<typeof retryPolicy>;
/** As it is used: durations in ms. */
export type RetryPolicy = z.output<typeof retryPolicy>;
/** A policy with every field set. */
export type FullRetryPolicy = { [field in keyof RetryPolicy]-?: number };

export const DEFAULT_RETRY: FullRetryPolicy = {
  maximumAttempts: 5,
  initialInterval: 1_000,
  backoffCoefficient: 2,
  maximumInterval: 60_000,
  maximumRetryAfter: 3_600_000,
};

/** @param attempts How many have failed, at least 1. @returns the pause before the next one, in ms. */
export function backoff(policy: FullRetryPolicy, attempts: number): number {
  return Math.min(
    policy.initialInterval * policy.backoffCoefficient ** (attempts - 1),
    policy.maximumInterval,
  );
}

/** Policies one over the other: a field of a later one wins. */
export function mergeRetry(...policies: (RetryPolicy | undefined)[]): FullRetryPolicy {
  const merged = { ...DEFAULT_RETRY };
  for (const policy of policies)
    for (const [field, value] of Object.entries(policy ?? {}))
      if (value !== undefined) merged[field as keyof RetryPolicy] = value;
  return merged;
}
