import { Command, GraphRecursionError } from '@langchain/langgraph';
import { PerdureError } from '../contracts/errors.ts';
import type { Database } from '../postgres/database.ts';
import { givenAnswers, type ClaimedRun, type GivenAnswer } from '../threads/segment.ts';

/** Tells whether the question that an answer is for still stands in LangGraph's tables, after `earlier` of its task. */
export type StillAsked = (answer: GivenAnswer, earlier: number) => Promise<boolean>;

/**
 * What LangGraph has to be given so that the run goes on from where it stands: its input, its answers, or null
 * once these were applied by an earlier attempt.
 * @throws PerdureError INTERRUPT_SUPERSEDED when the thread moved on before the answer's turn came.
 */
export async function segmentInput(
  database: Database,
  tenant: string,
  run: ClaimedRun,
  stillAsked: StillAsked,
): Promise<unknown> {
  const moved = run.head_checkpoint_id !== run.base_checkpoint_id;
  if (run.kind === 'input') return moved ? null : run.input;
  if (moved || run.kind === 'fork') return null;
  const answers = await givenAnswers(database, tenant, run);
  const own = answers.filter((answer) => answer.answer_run_id === run.run_id);
  const current = answers.filter((answer) => answer.checkpoint_id === run.head_checkpoint_id);
  if (run.kind === 'resume' && !current.some((answer) => own.includes(answer)))
    throw new PerdureError(
      'INTERRUPT_SUPERSEDED',
      'The thread moved on by another run before this answer had its turn; it was not applied.',
      { interrupts: own.map((answer) => answer.interrupt_id) },
    );
  // A first attempt finds its questions as they were asked; a later one must not answer the next question with them.
  const open =
    run.kind === 'resume' && run.attempts === 1
      ? current.filter((answer) => own.includes(answer))
      : await filterAsync(current, (answer, index) =>
          stillAsked(answer, current.slice(0, index).filter((other) => sameTask(other, answer)).length),
        );
  if (open.length === 0) return null;
  return new Command({
    resume: Object.fromEntries(open.map((answer) => [answer.interrupt_id, answer.answer])),
  });
}

function sameTask(one: GivenAnswer, other: GivenAnswer): boolean {
  return one.origin_task_id === other.origin_task_id && one.origin_ns === other.origin_ns;
}

async function filterAsync<T>(items: T[], keep: (item: T, index: number) => Promise<boolean>): Promise<T[]> {
  const kept = await Promise.all(items.map(keep));
  return items.filter((_, index) => kept[index]);
}

/** LangGraph's own. */
export const DEFAULT_RECURSION_LIMIT = 25;

/**
 * The step of the last superstep that the run may take; its earlier segments count. LangGraph's steps begin at -1 with
 * the input, so -2 stands for "nothing yet"; a run may take one superstep more than its limit, as LangGraph counts.
 */
export function lastSuperstep(run: ClaimedRun): number {
  return (run.base_step ?? -2) + recursionLimit(run) + 2;
}

export function recursionLimit(run: ClaimedRun): number {
  return run.config.recursion_limit ?? DEFAULT_RECURSION_LIMIT;
}

/** What LangGraph itself throws. */
export function recursionError(run: ClaimedRun): GraphRecursionError {
  return new GraphRecursionError(
    `Recursion limit of ${recursionLimit(run)} reached without hitting a stop condition. You can increase the limit by setting the "recursionLimit" config key.`,
    { lc_error_code: 'GRAPH_RECURSION_LIMIT' },
  );
}
