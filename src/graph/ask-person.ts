import { interrupt, isGraphInterrupt, GraphInterrupt } from '@langchain/langgraph';
import { deadlinePolicy, durationMs, type DeadlinePolicy } from '../contracts/deadlines.ts';
import { InvalidInputError } from '../contracts/errors.ts';
import { currentRunContext, type RunContext } from '../operations/run-context.ts';
import { fixDeadline, type QuestionDeadline } from '../threads/deadlines.ts';

/**
 * LangGraph's `interrupt(value)` with a deadline: what happens when nobody has answered in time.
 *
 * ```ts
 * const { approved } = await askPerson<{ approved: boolean }>(
 *   { question: 'Refund 900 EUR?' },
 *   { after: '2 days', escalate_to: 'team:leads', and_then: { after: '1 day', answer: { approved: false } } },
 * );
 * ```
 * The deadline counts from the first time that the node asks. Outside of a perdure run nobody watches it, and this is
 * `interrupt(value)`. As with `interrupt()`, the node runs again from its top once there is an answer, and what it
 * throws must not be caught.
 * @throws InvalidInputError when the deadline is none.
 */
export async function askPerson<T = unknown>(value: unknown, deadline: DeadlinePolicy): Promise<T> {
  const parsed = deadlinePolicy.safeParse(deadline);
  if (!parsed.success)
    throw new InvalidInputError(`askPerson: the deadline ${parsed.error.issues[0]?.message}.`);
  const { after, ...onDue } = parsed.data;
  return ask<T>(value, {
    kind: 'interrupt',
    due: { afterMs: durationMs(after) ?? 0 },
    on_due: onDue,
  });
}

type Deadline = Pick<QuestionDeadline, 'kind' | 'due' | 'on_due'>;

/** Asks by `interrupt()`, and keeps the deadline before the question leaves the node. */
export async function ask<T>(
  value: unknown,
  deadline: Deadline,
  shown: (dueAt: Date) => unknown = () => value,
): Promise<T> {
  try {
    return interrupt<unknown, T>(value);
  } catch (error) {
    const run = currentRunContext();
    if (!isGraphInterrupt(error) || run === undefined) throw error;
    const id = error.interrupts[0]?.id;
    if (id === undefined) throw error;
    const dueAt = await fix(run, id, deadline);
    throw new GraphInterrupt([{ ...error.interrupts[0], id, value: shown(dueAt) }]);
  }
}

async function fix(run: RunContext, id: string, deadline: Deadline): Promise<Date> {
  try {
    return await fixDeadline(run.database, {
      tenant: run.tenantId,
      thread_id: run.threadId,
      interrupt_id: id,
      ...deadline,
    });
  } catch (error) {
    // Not the graph's error: the run goes on with the next attempt.
    if (error instanceof Error) run.fail(error);
    throw error;
  }
}
