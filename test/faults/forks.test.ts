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

test('a fork inside a subgraph, killed while it begins, ends as one that nothing disturbs', async () => {
  const begun = async () => {
    const id = await attempts.begin('inside', { log: [], kind: 'exclusive' });
    await attempts.advance('inside', id);
    // Before in_2: the input, the start and in_1 come before it.
    await attempts.forkInside(id, 2, { values: { log: ['by hand'] } });
    return id;
  };
  const undisturbed = await begun();
  await attempts.advance('inside', undisturbed);
  const result = await attempts.left('inside', undisturbed);
  const effects = ['first', 'in_1', 'in_2', 'last'];
  expect(result).toMatchObject({ thread: 'idle', next: [], effects });
  expect((result.values['log'] as string[]).slice(-4)).toEqual(['in_1', 'by hand', 'in_2', 'last']);
  for (const point of ['fork:begun', 'checkpoint:before-put#2', 'checkpoint:before-put#3']) {
    const id = await begun();
    await attempts.killed('inside', id, point);
    await attempts.advance('inside', id);
    expect({ point, left: await attempts.left('inside', id) }).toEqual({ point, left: result });
  }
}, 120_000);

/** `point#n` counts from the beginning of the process: the fork's own process has passed none before. */
function relative(own: readonly string[], earlier: readonly string[]): string[] {
  return own.map((point) => {
    const [name = '', nth = '1'] = point.split('#');
    const before = earlier.filter((one) => one.split('#')[0] === name).length;
    return `${name}#${Number(nth) - before}`;
  });
}
