import { afterAll, describe, expect, test } from 'vitest';
import type { EffectKind } from '../../src/contracts/operations.ts';
import type { RunResult } from '../../src/contracts/runs.ts';
import { ABREAST, STEPS } from './attempt-graphs.ts';
import { openAttempts, type GraphName, type Left } from './attempts.ts';
import { passedPoints } from './passed-points.ts';

const attempts = await openAttempts();
afterAll(() => attempts.close());

/** A thread that nothing disturbs, and the points that it passes. */
async function undisturbed(graph: GraphName): Promise<{ points: string[]; result: Left }> {
  return passedPoints(async () => {
    const thread = await attempts.begin(graph, { log: [], kind: 'exclusive' });
    await attempts.advance(graph, thread);
    return attempts.left(graph, thread);
  });
}

async function killedAt(graph: GraphName, kind: EffectKind, point: string): Promise<Left> {
  const thread = await attempts.begin(graph, { log: [], kind });
  await attempts.killed(graph, thread, point);
  let run = await attempts.advance(graph, thread);
  // Beside the task that was killed another one may have been anywhere: a person says where.
  for (let questions = 0; run.status === 'interrupted' && questions < mayAsk(graph); questions += 1) {
    await attempts.answer(thread, run, { own: null, result: labelAsked(run) });
    run = await attempts.advance(graph, thread);
  }
  return attempts.left(graph, thread);
}

/** What the operation that is asked about was to count. */
function labelAsked({ interrupts: [question] = [] }: RunResult): string {
  return (question?.value as { args: { label: string } } | undefined)?.args.label ?? '';
}

/** How many operations a kill can leave behind, of which a person has to say what became of them. */
const mayAsk = (graph: GraphName): number => (graph === 'abreast' ? ABREAST.length - 1 : 0);

const GRAPHS = {
  ten: await undisturbed('ten'),
  delta: await undisturbed('delta'),
  abreast: await undisturbed('abreast'),
};

/** A recorded effect must not happen again, nor be asked about; so the kind is the strictest one. */
const BETWEEN_STORES = ['checkpoint:before-put', 'checkpoint:writes-stored', 'superstep:'];
/** An effect that is not recorded is looked up. */
const BEFORE_RECORD = ['operation:effect-done'];

const passing = (graph: keyof typeof GRAPHS, points: string[]): string[] =>
  GRAPHS[graph].points.filter((point) => points.some((prefix) => point.startsWith(prefix)));

test('a graph of ten steps makes each of its effects once', () => {
  for (const graph of ['ten', 'delta'] as const) {
    const { supersteps, ...result } = GRAPHS[graph].result;
    expect(result).toEqual({
      thread: 'idle',
      values: { log: STEPS, kind: 'exclusive' },
      next: [],
      effects: STEPS.toSorted(),
      operations: STEPS.map(() => 'count succeeded'),
    });
    expect(supersteps).toHaveLength(STEPS.length + 2);
  }
  expect(passing('ten', ['checkpoint:before-put'])).toHaveLength(STEPS.length + 2);
  expect(passing('delta', ['checkpoint:writes-stored']).length).toBeGreaterThanOrEqual(STEPS.length);
  expect(passing('abreast', ['operation:effect-done'])).toHaveLength(6);
});

describe.each<[keyof typeof GRAPHS, EffectKind, string[]]>([
  ['ten', 'exclusive', BETWEEN_STORES],
  ['ten', 'reconcilable', BEFORE_RECORD],
  ['delta', 'exclusive', ['checkpoint:writes-stored']],
  ['abreast', 'exclusive', BETWEEN_STORES],
  ['abreast', 'reconcilable', BEFORE_RECORD],
])('%s, its effects %s', (graph, kind, points) => {
  test.concurrent.each(passing(graph, points))('killed at %s: each effect counts once', async (point) => {
    const left = await killedAt(graph, kind, point);
    const { result } = GRAPHS[graph];
    expect(left).toEqual({ ...result, values: { ...result.values, kind } });
  });
});
