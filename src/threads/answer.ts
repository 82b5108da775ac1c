import { isDeepStrictEqual } from 'node:util';
import type pg from 'pg';
import {
  AlreadyAnsweredError,
  AmbiguousInterruptError,
  InvalidInputError,
  StaleApprovalError,
  UnknownInterruptError,
} from '../contracts/errors.ts';
import { wrongAnswer } from '../contracts/approvals.ts';
import { jsonValue, type JsonValue } from '../contracts/json.ts';
import type { Database } from '../postgres/database.ts';
import { lockThread, type LockedThread } from './locked-thread.ts';
import { MIN_DIGEST, QUESTION_DIGEST } from './question-digest.ts';
import { insertRun, type RecordedRun, type Waking } from './request-run.ts';

export type Answer = {
  thread_id: string;
  /** May be left out when exactly one interrupt waits. */
  interrupt_id?: string;
  value: JsonValue;
  /** Who answers, such as `user:mira`. */
  actor: string;
  /** The digest of the question as the one who answers saw it, or its first eight digits or more. */
  digest?: string | undefined;
  /** By which door the answer comes, such as `cli:host`. */
  from?: string | undefined;
};

export type Answered = RecordedRun & {
  interrupt_id: string;
  /** True when the same answer had been given before; nothing new was recorded. */
  repeated: boolean;
};

type InterruptRow = {
  interrupt_id: string;
  kind: 'interrupt' | 'operation' | 'timer';
  status: 'pending' | 'answered' | 'superseded' | 'cancelled';
  run_id: string;
  answer: JsonValue;
  answered_by: string | null;
  answered_at: Date | null;
  answer_run_id: string | null;
  operation_id: string | null;
  value: JsonValue;
  digest: string;
};

/**
 * Records an answer and queues the run that carries it, in one transaction under the thread's row lock: of two
 * reviewers one wins and the other is told who; the same answer twice is accepted once.
 * @throws UnknownThreadError | UnknownInterruptError | AmbiguousInterruptError | AlreadyAnsweredError | StaleApprovalError | InvalidInputError
 */
export async function answerInterrupt(
  database: Database,
  tenant: string,
  answer: Answer,
): Promise<Answered & Waking> {
  const value = jsonValue.safeParse(answer.value);
  if (!value.success) throw new InvalidInputError(`The answer ${value.error.issues[0]?.message}.`);
  return database.transaction(async (client) => {
    const thread = await lockThread(client, database, tenant, answer.thread_id);
    const row = await findInterrupt(client, database, tenant, answer);
    const repeated = repeatedAnswer(row, answer);
    if (repeated !== undefined)
      return {
        ...recorded(repeated, answer.thread_id, thread),
        interrupt_id: row.interrupt_id,
        repeated: true,
        wakes: true,
      };
    refuseUnfit(row, answer);
    const run = await insertRun(client, database, {
      tenant,
      thread: answer.thread_id,
      // What became of an operation is in the ledger; its task only has to run again.
      kind: row.kind === 'operation' ? 'continue' : 'resume',
      actor: answer.actor,
      config: await configOf(client, database, tenant, row.run_id),
    });
    await client.query(
      `UPDATE ${database.table('interrupts')}
       SET status = 'answered', answer = $4, answered_by = $5, answered_at = now(), answer_run_id = $6, answered_from = $7
       WHERE tenant_id = $1 AND thread_id = $2 AND interrupt_id = $3`,
      [
        tenant,
        answer.thread_id,
        row.interrupt_id,
        JSON.stringify(value.data),
        answer.actor,
        run,
        answer.from ?? null,
      ],
    );
    return {
      ...recorded(run, answer.thread_id, thread),
      interrupt_id: row.interrupt_id,
      repeated: false,
      wakes: thread.unfinished_runs === 0,
    };
  });
}

/** @throws StaleApprovalError | InvalidInputError */
function refuseUnfit(row: InterruptRow, answer: Answer): void {
  const given = answer.digest?.toLowerCase();
  if (given !== undefined && !/^[0-9a-f]+$/.test(given))
    throw new InvalidInputError(`The digest '${answer.digest}' is not in hex.`);
  if (given !== undefined && given.length < MIN_DIGEST)
    throw new InvalidInputError(`Give at least ${MIN_DIGEST} digits of the digest.`);
  if (given !== undefined && !row.digest.startsWith(given))
    throw new StaleApprovalError(answer.thread_id, row.interrupt_id, { given, digest: row.digest });
  const wrong = row.kind === 'interrupt' ? wrongAnswer(row.value, answer.value) : undefined;
  if (wrong !== undefined)
    throw new InvalidInputError(
      `That is no answer to interrupt ${row.interrupt_id} of thread '${answer.thread_id}': ${wrong}.`,
      { thread_id: answer.thread_id, interrupt_id: row.interrupt_id },
    );
}

function recorded(run: string, threadId: string, thread: LockedThread): RecordedRun {
  return { run_id: run, thread_id: threadId, graph: thread.graph, version: thread.version };
}

/** The id of the run that already carries this very answer; undefined when the interrupt is pending. */
function repeatedAnswer(row: InterruptRow, answer: Answer): string | undefined {
  if (row.status === 'pending') return undefined;
  if (row.status !== 'answered' || row.answer_run_id === null || row.answered_at === null)
    throw new UnknownInterruptError(
      `Interrupt ${row.interrupt_id} of thread '${answer.thread_id}' no longer waits: it was ${row.status === 'cancelled' ? 'cancelled' : 'overtaken by a newer run'}.`,
      { thread_id: answer.thread_id, pending: [], status: row.status },
    );
  if (isDeepStrictEqual(row.answer, answer.value)) return row.answer_run_id;
  throw new AlreadyAnsweredError(
    `Interrupt ${row.interrupt_id} was already answered by ${row.answered_by} at ${row.answered_at.toISOString()} with ${JSON.stringify(row.answer)}.`,
    {
      thread_id: answer.thread_id,
      interrupt_id: row.interrupt_id,
      answer: row.answer,
      answered_by: row.answered_by ?? '',
      answered_at: row.answered_at.toISOString(),
    },
  );
}

async function findInterrupt(
  client: pg.PoolClient,
  database: Database,
  tenant: string,
  answer: Answer,
): Promise<InterruptRow> {
  const { rows } = await client.query<InterruptRow>(
    `SELECT interrupt_id, kind, status, run_id, answer, answered_by, answered_at, answer_run_id, operation_id,
       value, ${QUESTION_DIGEST} AS digest
     FROM ${database.table('interrupts')}
     WHERE tenant_id = $1 AND thread_id = $2 AND (status = 'pending' OR interrupt_id = $3
       OR answer_run_id = (SELECT run_id FROM ${database.table('runs')} WHERE tenant_id = $1 AND thread_id = $2 AND NOT held ORDER BY sequence DESC LIMIT 1))
     ORDER BY sequence`,
    [tenant, answer.thread_id, answer.interrupt_id ?? null],
  );
  // A sleeping node is woken by naming it, never by an answer that may be meant for another.
  const pending = rows.filter((row) => row.status === 'pending' && row.kind !== 'timer');
  const ids = pending.map((row) => row.interrupt_id);
  if (answer.interrupt_id !== undefined) {
    const named = rows.find((row) => row.interrupt_id === answer.interrupt_id);
    if (named) return named;
    throw new UnknownInterruptError(
      `Thread '${answer.thread_id}' has no interrupt '${answer.interrupt_id}'. ${ids.length === 0 ? 'None is pending.' : `Pending: ${ids.join(', ')}`}`,
      { thread_id: answer.thread_id, pending: ids },
    );
  }
  if (pending.length > 1) throw new AmbiguousInterruptError(answer.thread_id, ids);
  // None waits: of two who answer at once, the second means the question that the thread's newest run has answered.
  const meant = pending[0] ?? rows.find((row) => row.kind !== 'timer');
  if (!meant)
    throw new UnknownInterruptError(`Thread '${answer.thread_id}' waits for no answer.`, {
      thread_id: answer.thread_id,
      pending: [],
    });
  return meant;
}

/** An answer's run goes on under the settings of the run that asked. */
async function configOf(
  client: pg.PoolClient,
  database: Database,
  tenant: string,
  run: string,
): Promise<unknown> {
  const { rows } = await client.query<{ config: unknown }>(
    `SELECT config FROM ${database.table('runs')} WHERE tenant_id = $1 AND run_id = $2`,
    [tenant, run],
  );
  return rows[0]?.config ?? {};
}

/**
 * Queues a run that goes on from where the thread stopped by a static interrupt (`interruptBefore`, `interruptAfter`).
 * @throws InvalidInputError when the thread is not stopped there, or waits for an answer.
 */
export async function continueThread(
  database: Database,
  tenant: string,
  threadId: string,
  actor: string,
): Promise<RecordedRun> {
  return database.transaction(async (client) => {
    const thread = await lockThread(client, database, tenant, threadId);
    const { rows } = await client.query<{ pending: string[] | null; config: unknown; asked: number }>(
      `SELECT config, (SELECT array_agg(interrupt_id ORDER BY sequence) FROM ${database.table('interrupts')}
          WHERE tenant_id = $1 AND thread_id = $2 AND status = 'pending') AS pending
       FROM ${database.table('runs')} WHERE tenant_id = $1 AND thread_id = $2 ORDER BY sequence DESC LIMIT 1`,
      [tenant, threadId],
    );
    const pending = rows[0]?.pending ?? [];
    if (pending.length > 0)
      throw new InvalidInputError(
        `Thread '${threadId}' waits for an answer: give --value for ${pending.join(', ')}.`,
        { thread_id: threadId, pending },
      );
    if (thread.status !== 'interrupted')
      throw new InvalidInputError(
        `Thread '${threadId}' is ${thread.status}: there is nothing to go on with.`,
        { thread_id: threadId },
      );
    const run = await insertRun(client, database, {
      tenant,
      thread: threadId,
      kind: 'continue',
      actor,
      config: rows[0]?.config ?? {},
    });
    return recorded(run, threadId, thread);
  });
}
