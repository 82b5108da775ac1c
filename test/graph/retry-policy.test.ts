import { expect, test } from 'vitest';
import { backoff, DEFAULT_RETRY, retryPolicy } from '../../src/contracts/retry-policy.ts';

test('pauses double from a second up to a minute', () => {
  expect([1, 2, 3, 4, 7, 999].map((attempts) => backoff(DEFAULT_RETRY, attempts))).toEqual([
    1_000, 2_000, 4_000, 8_000, 60_000, 60_000,
  ]);
});

test('a policy that could not be kept is refused', () => {
  for (const wrong of [
    { maximumAttempts: 0 },
    { initialInterval: -1 },
    { backoffCoefficient: 0.5 },
    { maximum_attempts: 3 },
  ])
    expect(retryPolicy.safeParse(wrong).success).toBe(false);
  expect(retryPolicy.parse({ maximumAttempts: 1, initialInterval: '2 seconds' })).toEqual({
    maximumAttempts: 1,
    initialInterval: 2_000,
  });
});
