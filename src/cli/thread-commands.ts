import { checkThreadId } from './thread-id.ts';
import { EXIT } from './exit-status.ts';
import { plain } from './output.ts';
import { withDatabase } from './looking.ts';
import type { Session } from './session.ts';
import { dueLines, escalationLines, sleeps } from './due-lines.ts';
import { blockedLines, errorLine, pauseLines, resumeLine } from './show-run.ts';
import { cell, table, time } from './table.ts';
import { listInterrupts, listRuns, listThreads, readRun, readThread } from '../threads/views.ts';

export type ThreadsOptions = { status?: string; graph?: string; limit: number };

export async function showThreads(session: Session, options: ThreadsOptions): Promise<number> {
  const threads = await withDatabase(session, (database, tenant) => listThreads(database, tenant, options));
  session.output.result({ threads }, () =>
    table(
      ['THREAD', 'GRAPH', 'STATUS', 'QUESTIONS', 'SLEEPS UNTIL', 'CHANGED'],
      threads.map((thread) => [
        thread.thread_id,
        `${thread.graph}@${thread.version}`,
        thread.status,
        thread.pending_interrupts || '',
        time(thread.sleeps_until),
        time(thread.updated_at),
      ]),
      'no threads',
    ),
  );
  return EXIT.done;
}

/** How many runs of a thread are shown, newest first. */
const SHOWN_RUNS = 20;
const SHOWN_INTERRUPTS = 1_000;
/** Digits of a digest; --digest takes as few. */
const SHOWN_DIGEST = 12;

export async function showThread(session: Session, threadId: string): Promise<number> {
  checkThreadId(threadId);
  const shown = await withDatabase(session, async (database, tenant) => {
    const thread = await readThread(database, tenant, threadId);
    const runs = await listRuns(database, tenant, threadId, SHOWN_RUNS);
    const interrupts = await listInterrupts(database, tenant, {
      thread_id: threadId,
      status: 'pending',
      limit: SHOWN_INTERRUPTS,
    });
    const last = runs.find(({ held }) => !held);
    const next =
      thread.status === 'interrupted' && last
        ? ((await readRun(database, tenant, last.run_id)).next ?? [])
        : [];
    return { ...thread, next, interrupts, runs };
  });
  session.output.result(shown, ({ bold }) => {
    const lines = [
      `thread ${bold(plain(shown.thread_id))}: ${shown.status}, ${shown.graph}@${shown.version}, since ${time(shown.created_at)}`,
    ];
    if (shown.copied_from !== null)
      lines.push(
        `copied from ${plain(shown.copied_from)} at ${shown.copied_at}${shown.lineage_root === shown.copied_from ? '' : `, of the lineage of ${plain(shown.lineage_root)}`}`,
      );
    if (shown.forked_at !== null) lines.push(`forked at ${shown.forked_at}`);
    if (shown.effects !== null) lines.push(`effects: ${shown.effects}`);
    if (shown.next.length > 0) lines.push(`next: ${shown.next.join(', ')}`);
    lines.push(
      '',
      table(
        ['RUN', 'KIND', 'STATUS', 'ASKED', 'ENDED', 'ERROR'],
        shown.runs.map((run) => [
          run.run_id,
          run.kind,
          run.held ? `${run.status}, held` : run.status,
          time(run.created_at),
          time(run.finished_at),
          run.error ? cell(errorLine(run.error)) : '',
        ]),
        'no runs',
      ),
    );
    const newest = shown.runs.find(({ held }) => !held);
    if (newest?.retry) lines.push('', ...pauseLines(session, threadId, newest.retry));
    if (shown.status === 'error' && newest?.error) lines.push('', ...blockedLines(newest.error));
    for (const { node, due_at } of shown.interrupts.filter(sleeps))
      lines.push('', `${node} sleeps until ${time(due_at)}`);
    for (const { id, node, value, kind, ...rest } of shown.interrupts.filter((one) => !sleeps(one)))
      lines.push(
        '',
        `${node} asks: ${plain(cell(value))}`,
        ...escalationLines(rest),
        ...dueLines(rest),
        `Answer: ${resumeLine(session, threadId, id, kind)}`,
      );
    if (shown.status === 'interrupted' && shown.interrupts.length === 0)
      lines.push('', `Go on: ${resumeLine(session, threadId)}`);
    return lines.join('\n');
  });
  return EXIT.done;
}

export async function showApprovals(
  session: Session,
  options: { thread?: string; limit: number },
): Promise<number> {
  const interrupts = await withDatabase(session, async (database, tenant) => {
    if (options.thread !== undefined) await readThread(database, tenant, options.thread);
    return listInterrupts(database, tenant, {
      status: 'pending',
      for_people: true,
      limit: options.limit,
      ...(options.thread === undefined ? {} : { thread_id: options.thread }),
    });
  });
  session.output.result({ interrupts }, () => {
    const rows = interrupts.map(({ thread_id, node, id, digest, value, created_at, due_at, escalations }) => [
      thread_id,
      node,
      id,
      digest.slice(0, SHOWN_DIGEST),
      time(created_at),
      time(due_at),
      escalations.at(-1)?.to ?? '',
      cell(value),
    ]);
    const list = table(
      ['THREAD', 'NODE', 'INTERRUPT', 'DIGEST', 'ASKED', 'DUE', 'ESCALATED TO', 'QUESTION'],
      rows,
      'nothing waits for a person',
    );
    const [first] = interrupts;
    return first ? `${list}\n\nAnswer: ${resumeLine(session, first.thread_id, first.id, first.kind)}` : list;
  });
  return EXIT.done;
}
