import { UnknownInterruptError } from '../contracts/errors.ts';
import { graphRef } from '../contracts/ids.ts';
import type { JsonValue } from '../contracts/json.ts';
import { UsageError } from './exit-status.ts';
import { checkThreadId } from './thread-id.ts';
import { parseJsonOption } from './json-text.ts';
import type { Runtime, Serving } from './runtime.ts';
import type { Session } from './session.ts';
import { asPending, showRun } from './show-run.ts';

export type ResumeOptions = { interrupt?: string; value?: string; detach?: boolean; worker: boolean };

/** Answers an interrupt, or goes on after a static one, and waits for the end. @returns the exit status. */
export async function resumeThread(
  session: Session,
  threadId: string,
  options: ResumeOptions,
): Promise<number> {
  checkThreadId(threadId);
  const value = options.value === undefined ? undefined : parseJsonOption('--value', options.value);
  if (value === undefined && options.interrupt !== undefined)
    throw new UsageError('--interrupt names a question: give the answer with --value JSON.');
  const settings = await session.settings();
  const progress = await session.output.progress();
  // Late, since they bring the clients of both servers along: a slip is told without them.
  const [{ servedBy, withRuntime }, { stopOnInterrupt, waitAndShow }] = await Promise.all([
    import('./runtime.ts'),
    import('./wait-for-run.ts'),
  ]);
  return withRuntime(session, settings, progress, async (runtime) => {
    const thread = await runtime.client.thread(threadId);
    await requireQuestion(runtime, threadId, options.interrupt);
    const serving: Serving = options.worker ? await servedBy(runtime, thread) : { started: 'nobody' };
    const stopped = stopOnInterrupt();
    const run = await answer(runtime, threadId, value, options);
    if (options.detach === true) return showRun(session, asPending(run));
    if (options.worker && serving.started === 'nobody') {
      session.output.note(
        `No worker serves ${graphRef(thread.graph, thread.version)}. This is recorded, and goes on once one does.`,
      );
      return showRun(session, asPending(run));
    }
    return waitAndShow(session, runtime, run, serving, progress, stopped);
  });
}

function answer(
  { client, settings }: Runtime,
  threadId: string,
  value: JsonValue | undefined,
  { interrupt }: ResumeOptions,
) {
  const { actor } = settings.config;
  if (value === undefined) return client.continueThread(threadId, actor);
  return client.answer(threadId, value, {
    actor,
    ...(interrupt === undefined ? {} : { interruptId: interrupt }),
  });
}

/** A slip in the id is told before a worker is started for it. */
async function requireQuestion(
  { client }: Runtime,
  threadId: string,
  interrupt: string | undefined,
): Promise<void> {
  if (interrupt === undefined) return;
  const asked = await client.interrupts({ thread_id: threadId, limit: 10_000 });
  if (asked.some(({ id }) => id === interrupt)) return;
  const pending = asked.filter(({ status }) => status === 'pending').map(({ id }) => id);
  throw new UnknownInterruptError(
    `Thread '${threadId}' has no interrupt '${interrupt}'. ${pending.length === 0 ? 'None is pending.' : `Pending: ${pending.join(', ')}`}`,
    { thread_id: threadId, pending },
  );
}
