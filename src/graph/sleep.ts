import { duration as durationSchema, durationMs } from '../contracts/deadlines.ts';
import { InvalidInputError, PerdureError } from '../contracts/errors.ts';
import { currentRunContext } from '../operations/run-context.ts';
import { ask } from './ask-person.ts';

/**
 * Lets the node sleep: `await sleep('40 days')`. The thread takes no memory meanwhile, and outlives workers, deploys
 * and servers. The time counts from the first pass and is kept; once it is over the node runs again from its top, as
 * after `interrupt()`, and this returns at once. Put effects before it into operations, or into a node of their own.
 * @param duration such as `'40 days'`, `'90 minutes'`, `'30s'`, or a number of ms. At most a hundred years.
 * @throws InvalidInputError when the duration is none; PerdureError OUTSIDE_RUN outside of a perdure run.
 */
export async function sleep(duration: string | number): Promise<void> {
  const ms = durationMs(duration);
  if (ms === undefined)
    throw new InvalidInputError(
      `sleep(${JSON.stringify(duration)}): ${durationSchema.safeParse(duration).error?.issues[0]?.message}.`,
    );
  await wait({ afterMs: ms });
}

/**
 * Lets the node sleep until a date, as `sleep()` does. A date that has passed is no error: the node goes on at once.
 * @throws InvalidInputError when the date is none; PerdureError OUTSIDE_RUN outside of a perdure run.
 */
export async function sleepUntil(date: Date | string): Promise<void> {
  const at = new Date(date);
  if (Number.isNaN(at.getTime())) throw new InvalidInputError(`sleepUntil(${String(date)}): is no date.`);
  await wait({ at });
}

/** What the question of a sleeping node holds, which nobody has to answer. */
export type SleepingValue = { type: 'sleep'; until: string };

async function wait(due: { afterMs: number } | { at: Date }): Promise<void> {
  if (currentRunContext() === undefined)
    throw new PerdureError(
      'OUTSIDE_RUN',
      'sleep() and sleepUntil() work in nodes that perdure runs; here nobody would wake the graph.',
    );
  const shown = (dueAt: Date): SleepingValue => ({ type: 'sleep', until: dueAt.toISOString() });
  // Also for a date that has passed: whether the node asked here must not depend on when it runs again.
  await ask({ type: 'sleep' }, { kind: 'timer', due, on_due: { answer: null } }, shown);
}
