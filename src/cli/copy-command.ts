import { copyThread } from '../client/copy-thread.ts';
import { copyRequest } from '../contracts/runs.ts';
import { listInterrupts, readThread } from '../threads/views.ts';
import { EXIT, UsageError } from './exit-status.ts';
import { withDatabase } from './looking.ts';
import { plain } from './output.ts';
import type { Session } from './session.ts';
import { resumeLine } from './show-run.ts';
import { cell } from './table.ts';
import { checkThreadId } from './thread-id.ts';

export type CopyCommandOptions = { at?: string; as?: string; effects?: string };

const OPTION_OF: Record<string, string> = { checkpoint_id: '--at', as: '--as', effects: '--effects' };

/** Copies a thread and shows what the copy waits for. Postgres alone is needed: nothing runs. */
export async function copyOfThread(
  session: Session,
  threadId: string,
  options: CopyCommandOptions,
): Promise<number> {
  checkThreadId(threadId);
  const parsed = copyRequest.safeParse({
    ...(options.at === undefined ? {} : { checkpoint_id: options.at }),
    ...(options.as === undefined ? {} : { as: options.as }),
    ...(options.effects === undefined ? {} : { effects: options.effects }),
  });
  if (!parsed.success) {
    const issue = parsed.error.issues[0];
    const option = OPTION_OF[String(issue?.path[0])] ?? '--at';
    throw new UsageError(`${option}: ${issue?.message ?? 'is invalid'}`, { option });
  }
  const { config } = await session.settings();
  const { copied, thread, interrupts } = await withDatabase(session, async (database, tenant) => {
    const made = await copyThread(database, tenant, threadId, { ...parsed.data, actor: config.actor });
    return {
      copied: made,
      thread: await readThread(database, tenant, made.thread_id),
      interrupts: await listInterrupts(database, tenant, {
        thread_id: made.thread_id,
        status: 'pending',
        for_people: true,
        limit: 1_000,
      }),
    };
  });
  session.output.result(
    { ...copied, status: thread.status, effects: thread.effects, interrupts },
    ({ bold }) =>
      [
        `thread ${bold(plain(copied.thread_id))}: ${thread.status}, copied from ${plain(threadId)} at ${copied.copied_at}`,
        ...interrupts.flatMap(({ id, node, value, kind }) => [
          '',
          `${node} asks: ${plain(cell(value))}`,
          `Answer: ${resumeLine(session, copied.thread_id, id, kind)}`,
        ]),
        ...(thread.status === 'interrupted' && interrupts.length === 0
          ? ['', `Go on: ${resumeLine(session, copied.thread_id)}`]
          : []),
      ].join('\n'),
  );
  return EXIT.done;
}
