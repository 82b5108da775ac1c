import type pg from 'pg';
import { durationMs, type DeadlinePolicy, type Escalation } from '../contracts/deadlines.ts';
import { isPerdureError } from '../contracts/errors.ts';
import type { JsonValue } from '../contracts/json.ts';
import type { DueResult } from '../contracts/thread-workflow.ts';
import type { Database } from '../postgres/database.ts';
import { lockThread } from './locked-thread.ts';
import { insertRun, type RecordedRun } from './request-run.ts';
import type { Queryable } from './stop-runs.ts';

/** How long the thread's workflow is left to do what is due before the sweeper does it, in ms. */
const OVERDUE_MS = 2_000;

/** A deadline that a node asks for with its question: after a time, or at a date. */
export type QuestionDeadline = {
  tenant: string;
  thread_id: string;
  interrupt_id: string;
  kind: 'interrupt' | 'timer';
  due: { afterMs: number } | { at: Date };
  /** What happens then. Of a timer: it is answered with null. */
  on_due: OnDue;
};

/** A policy without its `after`, which was over when this is looked at. */
export type OnDue =
  { answer: JsonValue } | { reject: string } | { escalate_to: string; and_then?: DeadlinePolicy | undefined };

/** Keeps a question's deadline from before the question itself is recorded; asked for again, it stays as it was. */
export async function fixDeadline(database: Database, deadline: QuestionDeadline): Promise<Date> {
  const { rows } = await database.query<{ due_at: Date }>(
    `INSERT INTO ${database.table('deadlines')} AS d (tenant_id, thread_id, interrupt_id, kind, due_at, on_due)
     VALUES ($1, $2, $3, $4, coalesce($5, now() + $6 * interval '1 millisecond'), $7)
     ON CONFLICT (tenant_id, thread_id, interrupt_id) DO UPDATE SET kind = d.kind
     RETURNING due_at`,
    [
      deadline.tenant,
      deadline.thread_id,
      deadline.interrupt_id,
      deadline.kind,
      'at' in deadline.due ? deadline.due.at : null,
      'afterMs' in deadline.due ? deadline.due.afterMs : null,
      JSON.stringify(deadline.on_due),
    ],
  );
  const [row] = rows;
  if (!row) throw new Error('INSERT ... RETURNING gave no row');
  return row.due_at;
}

/** When the next thing of the thread is due, in ISO 8601; null where nothing is, or it has left the version. */
export async function nextDue(
  on: Queryable,
  database: Database,
  tenant: string,
  threadId: string,
  version?: string,
): Promise<string | null> {
  const { rows } = await on.query<{ due_at: Date | null }>(
    `SELECT min(due_at) AS due_at FROM ${database.table('interrupts')} i
     JOIN ${database.table('threads')} t USING (tenant_id, thread_id)
     WHERE i.tenant_id = $1 AND i.thread_id = $2 AND i.status = 'pending' AND ($3::text IS NULL OR t.version = $3)`,
    [tenant, threadId, version ?? null],
  );
  return rows[0]?.due_at?.toISOString() ?? null;
}

type DueRow = {
  interrupt_id: string;
  kind: 'interrupt' | 'timer';
  run_id: string;
  value: JsonValue;
  on_due: OnDue;
  escalations: Escalation[];
};

export type Fired = DueResult & {
  /** The run that carries the answers that were due; undefined where none was. */
  run?: RecordedRun;
};

/**
 * Does what is due on a thread, in one transaction under its row lock, so that of a person's answer and a deadline
 * exactly one counts. Answers wait while a run is unfinished, which may bring a person's answer.
 */
export async function fireDue(database: Database, tenant: string, threadId: string): Promise<Fired> {
  try {
    return await database.transaction(async (client) => {
      const thread = await lockThread(client, database, tenant, threadId);
      const { rows } = await client.query<DueRow>(
        `SELECT interrupt_id, kind, run_id, value, on_due, escalations FROM ${database.table('interrupts')}
         WHERE tenant_id = $1 AND thread_id = $2 AND status = 'pending' AND due_at <= now() ORDER BY due_at, sequence`,
        [tenant, threadId],
      );
      const answers: { row: DueRow; answer: JsonValue }[] = [];
      for (const row of rows) {
        if ('escalate_to' in row.on_due) await escalate(client, database, tenant, threadId, row, row.on_due);
        else answers.push({ row, answer: answerOf(row.on_due, row.value) });
      }
      const [first] = thread.unfinished_runs === 0 ? answers : [];
      const run_id =
        first &&
        (await recordAnswers(client, database, { tenant, thread_id: threadId, first: first.row, answers }));
      const due: DueResult = {
        more: thread.unfinished_runs > 0 || run_id !== undefined,
        next_due: await nextDue(client, database, tenant, threadId),
      };
      if (run_id === undefined) return due;
      return { ...due, run: { run_id, thread_id: threadId, graph: thread.graph, version: thread.version } };
    });
  } catch (error) {
    if (isPerdureError(error, 'THREAD_DELETED')) return { more: false, next_due: null };
    throw error;
  }
}

/** Whoever it is escalated to has the time of the next deadline from now, however late this is. */
async function escalate(
  client: pg.PoolClient,
  database: Database,
  tenant: string,
  threadId: string,
  row: DueRow,
  { escalate_to: to, and_then: then }: { escalate_to: string; and_then?: DeadlinePolicy | undefined },
): Promise<void> {
  const { after, ...onDue } = then ?? {};
  const level = row.escalations.length + 1;
  const escalations: Escalation[] = [...row.escalations, { level, to, at: new Date().toISOString() }];
  await client.query(
    `UPDATE ${database.table('interrupts')}
     SET escalation_level = $4, escalations = $5, on_due = $6, due_at = now() + $7 * interval '1 millisecond'
     WHERE tenant_id = $1 AND thread_id = $2 AND interrupt_id = $3`,
    [
      tenant,
      threadId,
      row.interrupt_id,
      level,
      JSON.stringify(escalations),
      then ? JSON.stringify(onDue) : null,
      after === undefined ? null : durationMs(after),
    ],
  );
}

/** One run for all of them: they are tasks of one superstep. */
async function recordAnswers(
  client: pg.PoolClient,
  database: Database,
  due: { tenant: string; thread_id: string; first: DueRow; answers: { row: DueRow; answer: JsonValue }[] },
): Promise<string> {
  const { tenant, thread_id: thread, first, answers } = due;
  const by = ({ kind }: DueRow) => (kind === 'timer' ? 'system:timer' : 'system:deadline');
  const { rows } = await client.query<{ config: unknown }>(
    `SELECT config FROM ${database.table('runs')} WHERE tenant_id = $1 AND run_id = $2`,
    [tenant, first.run_id],
  );
  const run = await insertRun(client, database, {
    tenant,
    thread,
    kind: 'resume',
    actor: by(first),
    config: rows[0]?.config ?? {},
  });
  for (const { row, answer } of answers)
    await client.query(
      `UPDATE ${database.table('interrupts')}
       SET status = 'answered', answer = $4, answered_by = $5, answered_at = now(), answer_run_id = $6
       WHERE tenant_id = $1 AND thread_id = $2 AND interrupt_id = $3`,
      [tenant, thread, row.interrupt_id, JSON.stringify(answer), by(row), run],
    );
  return run;
}

function answerOf(onDue: { answer: JsonValue } | { reject: string }, question: JsonValue): JsonValue {
  if ('answer' in onDue) return onDue.answer;
  const rejection = { type: 'reject', message: onDue.reject };
  const actions =
    typeof question === 'object' && question !== null && !Array.isArray(question)
      ? question['actionRequests']
      : undefined;
  return Array.isArray(actions) ? { decisions: actions.map(() => rejection) } : rejection;
}

export type OverdueThread = { tenant_id: string; thread_id: string };

/** Threads where something should have happened by now, and can: their workflow's timer is lost, or late. */
export async function overdueThreads(database: Database, limit = 100): Promise<OverdueThread[]> {
  const { rows } = await database.query<OverdueThread>(
    `SELECT i.tenant_id, i.thread_id FROM ${database.table('interrupts')} i
     JOIN ${database.table('threads')} t USING (tenant_id, thread_id)
     WHERE i.status = 'pending' AND i.due_at < now() - $1 * interval '1 millisecond' AND t.deleted_at IS NULL
       AND (t.unfinished_runs = 0 OR i.on_due ->> 'escalate_to' IS NOT NULL)
     GROUP BY i.tenant_id, i.thread_id ORDER BY min(i.due_at) LIMIT $2`,
    [OVERDUE_MS, limit],
  );
  return rows;
}
