import { hostname } from 'node:os';
import { responseTo, type Decision } from '../contracts/approvals.ts';
import { AmbiguousInterruptError, UnknownInterruptError } from '../contracts/errors.ts';
import { graphRef } from '../contracts/ids.ts';
import type { JsonValue } from '../contracts/json.ts';
import type { InterruptView } from '../contracts/runs.ts';
import { UsageError } from './exit-status.ts';
import { checkThreadId } from './thread-id.ts';
import { parseJsonOption } from './json-text.ts';
import type { Runtime, Serving } from './runtime.ts';
import type { Session } from './session.ts';
import { asPending, showRun } from './show-run.ts';

export type ResumeOptions = {
  interrupt?: string;
  value?: string;
  approve?: boolean;
  /** True without a reason. */
  reject?: string | true;
  edit?: string;
  digest?: string;
  detach?: boolean;
  worker: boolean;
};

/** Answers an interrupt, or goes on after a static one, and waits for the end. @returns the exit status. */
export async function resumeThread(
  session: Session,
  threadId: string,
  options: ResumeOptions,
): Promise<number> {
  checkThreadId(threadId);
  const given = givenAnswer(options);
  if (given === undefined && (options.interrupt !== undefined || options.digest !== undefined))
    throw new UsageError(
      '--interrupt and --digest name a question: give the answer with --approve, --reject, --edit JSON or --value JSON.',
    );
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
    const run = await answer(runtime, threadId, given, options);
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

type Given = { value: JsonValue } | { decision: Decision };

/** @throws UsageError when several answers are given. */
function givenAnswer({ value, approve, reject, edit }: ResumeOptions): Given | undefined {
  const given: Given[] = [
    ...(value === undefined ? [] : [{ value: parseJsonOption('--value', value) }]),
    ...(approve === true ? [{ decision: { type: 'approve' as const } }] : []),
    ...(reject === undefined
      ? []
      : [{ decision: { type: 'reject' as const, reason: reject === true ? undefined : reject } }]),
    ...(edit === undefined
      ? []
      : [{ decision: { type: 'edit' as const, args: parseJsonOption('--edit', edit) } }]),
  ];
  if (given.length > 1) throw new UsageError('Give one of --approve, --reject, --edit and --value.');
  return given[0];
}

async function answer(
  { client, settings }: Runtime,
  threadId: string,
  given: Given | undefined,
  { interrupt, digest }: ResumeOptions,
) {
  const { actor } = settings.config;
  if (given === undefined) return client.continueThread(threadId, actor);
  const options = { actor, interruptId: interrupt, digest, from: `cli:${hostname()}` };
  if ('value' in given) return client.answer(threadId, given.value, options);
  const question = await questionFor(client, threadId, interrupt);
  return client.answer(threadId, responseTo(question.value, given.decision), {
    ...options,
    interruptId: question.id,
    // The answer is made for this question and no other.
    digest: digest ?? question.digest,
  });
}

/** The question that a decision is about: its shape tells what the answer has to look like. */
async function questionFor(
  client: Runtime['client'],
  threadId: string,
  interrupt: string | undefined,
): Promise<InterruptView> {
  const asked = await client.interrupts({ thread_id: threadId, limit: 10_000 });
  const pending = asked.filter(({ status }) => status === 'pending');
  const ids = pending.map(({ id }) => id);
  if (interrupt === undefined && pending.length > 1) throw new AmbiguousInterruptError(threadId, ids);
  const question = interrupt === undefined ? pending[0] : asked.find(({ id }) => id === interrupt);
  if (question === undefined)
    throw new UnknownInterruptError(`Thread '${threadId}' waits for no answer.`, {
      thread_id: threadId,
      pending: ids,
    });
  if (question.kind === 'operation')
    throw new UsageError(
      'This asks what became of an operation: say it with perdure operations resolve, or with --value.',
    );
  return question;
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
