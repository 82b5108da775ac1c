import { graphRef } from '../contracts/ids.ts';
import type { Serving } from './runtime.ts';
import type { Session } from './session.ts';
import { asPending, showRun } from './show-run.ts';
import { checkThreadId } from './thread-id.ts';

export type RetryOptions = { detach?: boolean; worker: boolean };

/** Goes on with a thread that an error blocked, and waits for the end. @returns the exit status. */
export async function retryThread(
  session: Session,
  threadId: string,
  options: RetryOptions,
): Promise<number> {
  checkThreadId(threadId);
  const settings = await session.settings();
  const progress = await session.output.progress();
  const [{ servedBy, withRuntime }, { stopOnInterrupt, waitAndShow }] = await Promise.all([
    import('./runtime.ts'),
    import('./wait-for-run.ts'),
  ]);
  return withRuntime(session, settings, progress, async (runtime) => {
    const { client } = runtime;
    const thread = await client.thread(threadId);
    const serving: Serving = options.worker ? await servedBy(runtime, thread) : { started: 'nobody' };
    const stopped = stopOnInterrupt();
    const run = await client.retry(threadId, settings.config.actor);
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
