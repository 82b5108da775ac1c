import { EXIT } from './exit-status.ts';
import { plain } from './output.ts';
import type { Session } from './session.ts';

/** Does what has to be done after Postgres was put back to a backup. */
export async function declareRestored(session: Session): Promise<number> {
  const settings = await session.settings();
  const progress = await session.output.progress();
  const { withRuntime } = await import('./runtime.ts');
  const done = await withRuntime(session, settings, progress, ({ client }) => client.declareRestored());
  session.output.result(done, () => {
    const lines = [`${done.threads} threads look for effects before they have new ones`];
    if (done.ended.length > 0)
      lines.push(`not in the backup, ask again: ${done.ended.map((one) => plain(one.thread_id)).join(', ')}`);
    return lines.join('\n');
  });
  return EXIT.done;
}
