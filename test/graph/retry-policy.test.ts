import { expect, test } from 'vitest';
import { backoff, DEFAULT_RETRY, retryPolicy } from '../../src/contracts/retry-policy.ts';

test('pauses double from a second up to a minute', () => {
  expect([1, 2, 3, 4, 7, 999].map((attempts) => backoff(DEFAULT_RETRY, attempts))).toEqual([
    1_000, 2_000, 4_000, 8_000, 60_000, 60_000,
  ]);
});

test('a policy that could not be kept is refused', () => {
  for (const wrong of [
    { maximum_attempts: 0 },
    { initial_interval_ms: -1 },
    { backoff_coefficient: 0.5 },
    { maximumAttempts: 3 },
  ])
    expect(retryPolicy.safeParse(wrong).success).toBe(false);
  expect(retryPolicy.parse({ maximum_attempts: 1 })).toEqual({ maximum_attempts: 1 });
});
