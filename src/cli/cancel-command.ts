import { EXIT } from './exit-status.ts';
import type { Session } from './session.ts';
import { checkThreadId } from './thread-id.ts';

/** Ends what the thread has under way. */
export async function cancel(session: Session, threadId: string): Promise<number> {
  checkThreadId(threadId);
  const settings = await session.settings();
  const progress = await session.output.progress();
  const { withRuntime } = await import('./runtime.ts');
  const cancelled = await withRuntime(session, settings, progress, ({ client }) => client.cancel(threadId));
  session.output.result(cancelled, () => {
    const { cancelled_runs, stopping_run, withdrawn_interrupts } = cancelled;
    const done = [
      ...(stopping_run === null ? [] : [`run ${stopping_run} stops as soon as its worker has heard`]),
      ...(cancelled_runs.length === 0 ? [] : [`cancelled: ${cancelled_runs.join(', ')}`]),
      ...(withdrawn_interrupts.length === 0 ? [] : [`no longer asked: ${withdrawn_interrupts.join(', ')}`]),
    ];
    return done.length === 0 ? 'nothing was under way' : done.join('\n');
  });
  return EXIT.done;
}
