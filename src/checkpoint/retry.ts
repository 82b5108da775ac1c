import { setTimeout as delay } from 'node:timers/promises';
import type { Database } from '../postgres/database.ts';
import { isUnavailable, storageError } from '../postgres/failures.ts';

/** How long a statement is tried again while Postgres can't be reached, in ms. A restart takes one or two seconds. */
export const RETRY_FOR_MS = 10_000;
/** The first pause, in ms; each is twice the one before, up to MAX_PAUSE_MS. */
const FIRST_PAUSE_MS = 25;
const MAX_PAUSE_MS = 1_000;

/**
 * Runs `work`, which must be safe to repeat, until Postgres answers or `retryForMs` have passed.
 * @throws StorageUnavailableError when they have; other errors at once.
 */
export async function withRetries<T>(
  database: Database,
  retryForMs: number,
  work: () => Promise<T>,
): Promise<T> {
  const deadline = Date.now() + retryForMs;
  for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(pause * 2, MAX_PAUSE_MS)) {
    try {
      return await work();
    } catch (error) {
      const closed = database.pool.ending || database.pool.ended;
      if (closed || !isUnavailable(error) || Date.now() + pause > deadline) throw storageError(error);
      await delay(pause);
    }
  }
}
