import { setTimeout as delay } from 'node:timers/promises';

const PAUSE_MS = 20;

/** Looks until `look` gives a value. @throws Error after `timeoutMs`, with the last error that `look` threw. */
export async function eventually<T>(
  look: () => Promise<T | undefined> | T | undefined,
  timeoutMs = 20_000,
): Promise<T> {
  const deadline = Date.now() + timeoutMs;
  let last: unknown;
  for (;;) {
    try {
      const value = await look();
      if (value !== undefined) return value;
      last = undefined;
    } catch (error) {
      last = error;
    }
    if (Date.now() > deadline) throw new Error(`not within ${timeoutMs} ms`, { cause: last });
    await delay(PAUSE_MS);
  }
}

/** Waits until `holds` is true. */
export async function until(holds: () => Promise<boolean> | boolean, timeoutMs?: number): Promise<void> {
  await eventually(async () => ((await holds()) ? true : undefined), timeoutMs);
}
