import { afterAll, describe, expect, test } from 'vitest';
import type { ForkRequest } from '../../src/contracts/runs.ts';
import { STEPS } from './attempt-graphs.ts';
import { openAttempts } from './attempts.ts';
import { passedPoints } from './passed-points.ts';

const attempts = await openAttempts();
afterAll(() => attempts.close());

type Fork = Omit<ForkRequest, 'checkpoint_id'>;

/** Before the eighth step, of a thread that has made all ten. */
const AT = 8;

async function thread(): Promise<string> {
  const id = await attempts.begin('ten', { log: [], kind: 'exclusive' });
  await attempts.advance('ten', id);
  return id;
}

const FORKS: [string, Fork, string[]][] = [
  ['a replay', {}, STEPS],
  ['a change', { values: { log: ['by hand'] } }, STEPS.toSpliced(AT - 1, 0, 'by hand')],
  ['a step by hand', { values: { log: ['by hand'] }, as_node: 'step_8' }, STEPS.with(AT - 1, 'by hand')],
];

describe.each(FORKS)('%s', (_, fork, log) => {
  const points = ['segment:begun', 'checkpoint:before-put', 'superstep:', 'segment:ending'];

  test('killed anywhere ends as one that nothing disturbs, and no effect happens again', async () => {
    const { points: passed, result } = await passedPoints(async () => {
      const id = await thread();
      await attempts.fork(id, AT, fork);
      await attempts.advance('ten', id);
      return attempts.left('ten', id);
    });
    expect(result).toMatchObject({ thread: 'idle', values: { log }, next: [], effects: STEPS.toSorted() });
    // The thread itself passed some before the fork, by the same names.
    const undisturbed = await passedPoints(thread);
    const own = passed
      .slice(undisturbed.points.length)
      .filter((point) => points.some((prefix) => point.startsWith(prefix)));
    expect(own.length).toBeGreaterThan(4);
    for (const point of new Set(relative(own, undisturbed.points))) {
      const id = await thread();
      await attempts.fork(id, AT, fork);
      await attempts.killed('ten', id, point);
      await attempts.advance('ten', id);
      expect({ point, left: await attempts.left('ten', id) }).toEqual({ point, left: result });
    }
  }, 120_000);
});

/** `point#n` counts from the beginning of the process: the fork's own process has passed none before. */
function relative(own: readonly string[], earlier: readonly string[]): string[] {
  return own.map((point) => {
    const [name = '', nth = '1'] = point.split('#');
    const before = earlier.filter((one) => one.split('#')[0] === name).length;
    return `${name}#${Number(nth) - before}`;
  });
}
