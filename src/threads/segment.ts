import { StaleFenceError } from '../contracts/errors.ts';
import type { ErrorRecord, JsonValue } from '../contracts/json.ts';
import type { EffectsMode, RunConfig, RunKind } from '../contracts/runs.ts';
import { durationMs, type DeadlinePolicy } from '../contracts/deadlines.ts';
import type { Database } from '../postgres/database.ts';
import { nextDue } from './deadlines.ts';
import { moveInputBehind } from './held-runs.ts';
import type { RetryState } from './postpone-run.ts';

/** A run that an attempt has taken in hand, and the thread as it stood at that moment. */
export type ClaimedRun = {
  run_id: string;
  kind: RunKind;
  input: JsonValue;
  config: RunConfig;
  /** 1 for the first segment of the run. */
  attempts: number;
  cancel_requested: boolean;
  /** What the run is to end as when newer input stops it. */
  stop_as: 'interrupted' | 'rolled_back' | null;
  /** Whether it begins at `fork_checkpoint_id` (null: with an empty state), since the runs before it were rolled back. */
  rewound: boolean;
  /** The thread's newest root checkpoint and its step when the run began; null on a new thread. */
  base_checkpoint_id: string | null;
  base_step: number | null;
  fence: number;
  checkpoint_thread_id: string;
  lineage_root: string;
  head_checkpoint_id: string | null;
  head_step: number | null;
  state_version: number;
  /** How many of the head's supersteps are forks' own: the way to it has that many more than it would without them. */
  head_fork_steps: number;
  /** Of a fork: where it begins, and with what change. */
  fork_checkpoint_id: string | null;
  fork_values: JsonValue;
  fork_as_node: string | null;
  /** Of a fork that begins inside a subgraph: its namespace and checkpoint, below `fork_checkpoint_id`. */
  fork_ns: string | null;
  fork_ns_checkpoint_id: string | null;
  /** The same count for the checkpoint that the fork begins at. */
  base_fork_steps: number;
  effects: EffectsMode;
  /** Failed attempts of nodes, where there were any. */
  retry: RetryState | null;
  /** The branch that the thread was on when the run began. */
  branch_id: string | null;
  branch_effects: EffectsMode | null;
};

/** An answer that was given to a question of the graph. */
export type GivenAnswer = {
  interrupt_id: string;
  /** The run that carries it. */
  answer_run_id: string;
  answer: JsonValue;
  checkpoint_id: string;
  origin_ns: string;
  origin_checkpoint_id: string;
  origin_task_id: string;
};

const STEP = "(c.metadata ->> 'step')::int";
/** `superstep` counts without the forks' own; a checkpoint of another writer has none. */
const FORK_STEPS = "(c.metadata ->> 'step')::int - (c.metadata ->> 'superstep')::int";

/**
 * Takes the thread's oldest unfinished run in hand and raises the fence, so that every earlier attempt is shut out
 * from this moment on. Undefined when nothing waits, the oldest run waits to be tried again later (see readPause), the
 * thread was deleted, or is not under `version`.
 */
export async function beginSegment(
  database: Database,
  tenant: string,
  threadId: string,
  version?: string,
): Promise<ClaimedRun | undefined> {
  for (;;) {
    const run = await claimRun(database, tenant, threadId, version);
    // An earlier attempt that was just ending the run that this one saw: others may wait behind it.
    if (run === undefined && (await hasDueRun(database, tenant, threadId, version))) continue;
    if (run === undefined || run.head_checkpoint_id === null || run.head_step !== null) return run;
    return { ...run, ...(await stepsAtHead(database, run)) };
  }
}

/**
 * While this waits for the thread's row, an earlier attempt may store a checkpoint, or end the run. What it did to the
 * row is seen then; what it did to other tables is not, so the head is never taken from there alone.
 */
async function claimRun(
  database: Database,
  tenant: string,
  threadId: string,
  version: string | undefined,
): Promise<ClaimedRun | undefined> {
  const checkpoint = (columns: string, which: string) =>
    `(SELECT ${columns} FROM ${database.table('checkpoints')} c
      WHERE c.thread_id = t.checkpoint_thread_id AND c.checkpoint_ns = '' AND ${which})`;
  const head = 'c.checkpoint_id = t.head_checkpoint_id';
  const forked = 'c.checkpoint_id = r.fork_checkpoint_id';
  const { rows } = await database.prepared<Omit<ClaimedRun, 'fence'> & { fence: string }>(
    `WITH next AS (
       SELECT run_id, retry_at <= now() OR cancel_requested_at IS NOT NULL AS due FROM ${database.table('runs')}
       WHERE tenant_id = $1 AND thread_id = $2 AND status IN ('pending', 'running') AND NOT held
       ORDER BY sequence LIMIT 1
     ), due AS (
       SELECT run_id FROM next WHERE coalesce(due, true)
     ), t AS (
       UPDATE ${database.table('threads')} AS t
       SET fence = fence + 1, status = 'busy', updated_at = now(), head_checkpoint_id = greatest(
         head_checkpoint_id, ${checkpoint('checkpoint_id', 'true ORDER BY checkpoint_id DESC LIMIT 1')})
       WHERE tenant_id = $1 AND thread_id = $2 AND ($3::text IS NULL OR version = $3) AND deleted_at IS NULL
         AND EXISTS (SELECT FROM due)
       RETURNING fence, checkpoint_thread_id, lineage_root, head_checkpoint_id, state_version, branch_id, branch_effects,
         rewound, rewound_to, ${checkpoint(STEP, 'c.checkpoint_id = t.rewound_to')} AS rewound_step,
         ${checkpoint(STEP, head)} AS head_step, ${checkpoint(FORK_STEPS, head)} AS head_fork_steps
     )
     UPDATE ${database.table('runs')} AS r
     SET status = 'running', retry_at = NULL, attempts = attempts + 1, started_at = coalesce(started_at, now()),
         base_checkpoint_id = CASE WHEN attempts = 0 THEN t.head_checkpoint_id ELSE base_checkpoint_id END,
         base_step = CASE WHEN attempts > 0 THEN base_step WHEN kind = 'fork' THEN ${checkpoint(STEP, forked)}
                          WHEN t.rewound THEN t.rewound_step ELSE t.head_step END,
         rewound = CASE WHEN attempts = 0 THEN t.rewound AND kind <> 'fork' ELSE r.rewound END,
         fork_checkpoint_id = CASE WHEN attempts = 0 AND t.rewound AND kind <> 'fork' THEN t.rewound_to
                                   ELSE fork_checkpoint_id END
     FROM t, due
     WHERE r.tenant_id = $1 AND r.run_id = due.run_id AND r.status IN ('pending', 'running')
     RETURNING r.run_id, r.kind, r.input, r.config, r.attempts, r.cancel_requested_at IS NOT NULL AS cancel_requested,
       r.stop_as, r.rewound,
       r.base_checkpoint_id, r.base_step, t.fence, t.checkpoint_thread_id, t.lineage_root, t.head_checkpoint_id,
       t.head_step, t.state_version, coalesce(t.head_fork_steps, 0) AS head_fork_steps, r.fork_checkpoint_id,
       r.fork_values, r.fork_as_node, r.fork_ns, r.fork_ns_checkpoint_id, coalesce(${checkpoint(FORK_STEPS, forked)}, 0) AS base_fork_steps, r.effects, r.retry,
       t.branch_id, t.branch_effects`,
    [tenant, threadId, version ?? null],
  );
  const row = rows[0];
  return row && { ...row, fence: Number(row.fence) };
}

async function hasDueRun(
  database: Database,
  tenant: string,
  threadId: string,
  version: string | undefined,
): Promise<boolean> {
  const { rows } = await database.prepared<{ due: boolean }>(
    `SELECT coalesce(r.retry_at <= now() OR r.cancel_requested_at IS NOT NULL, true) AS due
     FROM ${database.table('threads')} t JOIN ${database.table('runs')} r USING (tenant_id, thread_id)
     WHERE tenant_id = $1 AND thread_id = $2 AND ($3::text IS NULL OR t.version = $3) AND t.deleted_at IS NULL
       AND r.status IN ('pending', 'running') AND NOT r.held ORDER BY r.sequence LIMIT 1`,
    [tenant, threadId, version ?? null],
  );
  return rows[0]?.due ?? false;
}

async function stepsAtHead(
  database: Database,
  run: ClaimedRun,
): Promise<Pick<ClaimedRun, 'head_step' | 'head_fork_steps'>> {
  const { rows } = await database.prepared<{ step: number | null; fork_steps: number | null }>(
    `SELECT ${STEP} AS step, ${FORK_STEPS} AS fork_steps FROM ${database.table('checkpoints')} c
     WHERE thread_id = $1 AND checkpoint_ns = '' AND checkpoint_id = $2`,
    [run.checkpoint_thread_id, run.head_checkpoint_id],
  );
  return { head_step: rows[0]?.step ?? null, head_fork_steps: rows[0]?.fork_steps ?? 0 };
}

/**
 * The answers that the run carries, and those that earlier runs carried to the same checkpoint: while an operation is
 * unknown its task can't take them. In the order in which the questions were asked.
 */
export async function givenAnswers(
  database: Database,
  tenant: string,
  run: Pick<ClaimedRun, 'run_id' | 'head_checkpoint_id'>,
): Promise<GivenAnswer[]> {
  const runs = database.table('runs');
  const { rows } = await database.prepared<GivenAnswer>(
    `SELECT i.interrupt_id, i.answer_run_id, i.answer, i.checkpoint_id, i.origin_ns, i.origin_checkpoint_id, i.origin_task_id
     FROM ${runs} r
     JOIN ${database.table('interrupts')} i ON i.tenant_id = r.tenant_id AND i.thread_id = r.thread_id
     JOIN ${runs} a ON a.tenant_id = i.tenant_id AND a.run_id = i.answer_run_id AND a.sequence <= r.sequence
     WHERE r.tenant_id = $1 AND r.run_id = $2 AND i.kind <> 'operation'
       AND (i.answer_run_id = r.run_id OR i.checkpoint_id = $3)
     ORDER BY i.sequence`,
    [tenant, run.run_id, run.head_checkpoint_id],
  );
  return rows;
}

/** A question that a run ended with. */
export type AskedInterrupt = {
  interrupt_id: string;
  kind: 'interrupt' | 'operation';
  node: string;
  checkpoint_id: string;
  origin_ns: string;
  origin_checkpoint_id: string;
  origin_task_id: string;
  operation_id: string | null;
  value: JsonValue;
  /** The deadline of the run or the graph; one that the node asked for counts instead. */
  deadline?: DeadlinePolicy | undefined;
};

export type SegmentEnd = {
  run_id: string;
  fence: number;
  status: 'success' | 'interrupted' | 'error' | 'cancelled' | 'rolled_back';
  checkpoint_id: string | null;
  error?: ErrorRecord;
  /** Nodes that come next; for `interrupted`. */
  next?: string[];
  asked?: AskedInterrupt[];
  /** Which other pending interrupts of the thread can no longer be answered. */
  supersede: 'others' | 'none';
  /** The branch that the run began, and that the thread's later runs are on. */
  branch?: { id: string; effects: EffectsMode } | undefined;
};

/**
 * Records how the run ended, what it asks, and what the thread is now, in one statement and only for the attempt
 * that holds the fence. A run that is to be rolled back is that however it ended. Repeating it after a lost reply is harmless.
 * @returns whether further runs wait, and when the next thing is due where none does.
 * @throws StaleFenceError when a newer attempt holds the thread.
 */
export async function finishSegment(
  database: Database,
  tenant: string,
  threadId: string,
  end: SegmentEnd,
): Promise<{ more: boolean; next_due: string | null }> {
  const more = await recordEnd(database, tenant, threadId, end);
  // After a success nothing of the thread is pending.
  const mayBeDue = !more && end.status !== 'success';
  return { more, next_due: mayBeDue ? await nextDue(database, database, tenant, threadId) : null };
}

/**
 * Where the thread asks about an operation once the run has ended, input that waits behind the run is held until that
 * is answered; else what was held goes on. Newer input that stopped the run goes on whatever the run asked.
 * @returns whether further runs wait.
 */
async function recordEnd(
  database: Database,
  tenant: string,
  threadId: string,
  end: SegmentEnd,
): Promise<boolean> {
  const text = `WITH locked AS (
       SELECT thread_id FROM ${database.table('threads')}
       WHERE tenant_id = $1 AND thread_id = $2 AND fence = $4 AND deleted_at IS NULL FOR UPDATE
     ), asked AS (
       SELECT * FROM json_to_recordset($9::json) AS a(interrupt_id text, kind text, node text, checkpoint_id text,
         origin_ns text, origin_checkpoint_id text, origin_task_id text, operation_id text, value json,
         after_ms double precision, on_due json)
     ), r AS (
       UPDATE ${database.table('runs')} AS r
       SET status = CASE WHEN r.stop_as = 'rolled_back' THEN 'rolled_back' ELSE $5 END,
         stopped_by = CASE WHEN r.stop_as = 'rolled_back' OR r.stop_as = $5 THEN r.stopped_by END,
         error = $6, checkpoint_id = $7, next = $8, finished_at = now()
       FROM locked WHERE r.tenant_id = $1 AND r.run_id = $3 AND r.status = 'running'
       RETURNING r.run_id, r.status, r.base_checkpoint_id, r.status = 'rolled_back' AS undone,
         $7 IS DISTINCT FROM r.base_checkpoint_id AS moved, r.stop_as IS NULL AND CASE WHEN $10
           THEN r.status = 'interrupted' AND EXISTS (SELECT FROM asked WHERE kind = 'operation')
           ELSE EXISTS (
             SELECT FROM ${database.table('interrupts')} i LEFT JOIN ${database.table('runs')} a
               ON a.tenant_id = i.tenant_id AND a.run_id = i.answer_run_id AND a.status = 'pending'
             WHERE i.tenant_id = $1 AND i.thread_id = $2 AND i.kind = 'operation'
               AND (i.status = 'pending' OR (i.status = 'answered' AND a.run_id IS NOT NULL))) END AS holds
     ), turned AS (
       UPDATE ${database.table('runs')} AS q SET held = r.holds
       FROM r WHERE q.tenant_id = $1 AND q.thread_id = $2 AND q.status = 'pending' AND q.kind = 'input'
         AND q.held <> r.holds
       RETURNING CASE WHEN q.held THEN 1 ELSE -1 END AS by
     ), overtaken AS (
       UPDATE ${database.table('interrupts')} AS i SET status = 'superseded'
       FROM r WHERE i.tenant_id = $1 AND i.thread_id = $2 AND i.status = 'pending' AND $10 AND NOT r.undone
         AND i.interrupt_id NOT IN (SELECT interrupt_id FROM asked)
     ), put AS (
       INSERT INTO ${database.table('interrupts')} AS i (tenant_id, thread_id, run_id, interrupt_id, kind, node,
         checkpoint_id, origin_ns, origin_checkpoint_id, origin_task_id, operation_id, value, due_at, on_due)
       SELECT $1, $2, r.run_id, a.interrupt_id, coalesce(d.kind, a.kind), a.node, a.checkpoint_id, a.origin_ns, a.origin_checkpoint_id,
         a.origin_task_id, a.operation_id, a.value,
         coalesce(d.due_at, now() + a.after_ms * interval '1 millisecond'), coalesce(d.on_due, a.on_due)
       FROM r CROSS JOIN asked a LEFT JOIN ${database.table('deadlines')} d
         ON d.tenant_id = $1 AND d.thread_id = $2 AND d.interrupt_id = a.interrupt_id
       WHERE NOT r.undone
       ON CONFLICT (tenant_id, thread_id, interrupt_id) DO UPDATE
         SET status = 'pending', run_id = EXCLUDED.run_id, value = EXCLUDED.value, checkpoint_id = EXCLUDED.checkpoint_id,
           due_at = EXCLUDED.due_at, on_due = EXCLUDED.on_due, escalation_level = 0, escalations = '[]'
         WHERE i.status = 'superseded'
     ), t AS (
       UPDATE ${database.table('threads')} AS t
       SET unfinished_runs = t.unfinished_runs - 1 - turns.runs, held_runs = t.held_runs + turns.runs,
         updated_at = now(),
         status = CASE WHEN t.unfinished_runs - turns.runs > 1 THEN 'busy' WHEN r.status = 'interrupted' THEN 'interrupted'
                       WHEN r.status = 'error' THEN 'error' ELSE 'idle' END,
         branch_id = CASE WHEN r.undone THEN t.branch_id ELSE coalesce($11, t.branch_id) END,
         branch_effects = CASE WHEN r.undone THEN t.branch_effects ELSE coalesce($12, t.branch_effects) END,
         in_doubt = t.in_doubt AND r.status <> 'success',
         rewound = CASE WHEN r.undone THEN t.rewound OR r.moved ELSE t.rewound AND NOT r.moved END,
         rewound_to = CASE WHEN r.undone AND r.moved AND NOT t.rewound THEN r.base_checkpoint_id
                           WHEN r.moved AND NOT r.undone THEN NULL ELSE t.rewound_to END
       FROM r, (SELECT coalesce(sum(by), 0)::int AS runs FROM turned) turns
       WHERE t.tenant_id = $1 AND t.thread_id = $2 RETURNING t.unfinished_runs, t.held_runs
     )
     SELECT t.unfinished_runs AS unfinished, t.held_runs AS held, pg_notify('perdure_runs', $3::text) FROM t`;
  const values = [
    tenant,
    threadId,
    end.run_id,
    end.fence,
    end.status,
    end.error ? JSON.stringify(end.error) : null,
    end.checkpoint_id,
    end.next ? JSON.stringify(end.next) : null,
    JSON.stringify((end.asked ?? []).map(askedRow)),
    end.supersede === 'others',
    end.branch?.id ?? null,
    end.branch?.effects ?? null,
  ];
  const { rows } = await (mayHold(end)
    ? database.transaction(async (client) => {
        // Input that is being recorded at this moment is behind the run as well: a statement that waits for the
        // thread's row would not see it.
        await client.query(
          `SELECT FROM ${database.table('threads')} WHERE tenant_id = $1 AND thread_id = $2 FOR UPDATE`,
          [tenant, threadId],
        );
        const ended = await client.query<{ unfinished: number; held: number }>(text, values);
        const [left] = ended.rows;
        // Forks and answers that were queued as well go before what is held.
        if (left && left.held > 0 && left.unfinished > 0)
          await moveInputBehind(client, database, tenant, threadId);
        return ended;
      })
    : database.prepared<{ unfinished: number }>(text, values));
  if (rows[0]) return rows[0].unfinished > 0;
  return moreAfter(database, tenant, threadId, end);
}

function mayHold({ supersede, asked = [] }: SegmentEnd): boolean {
  return supersede === 'none' || asked.some(({ kind }) => kind === 'operation');
}

function askedRow({ deadline, ...asked }: AskedInterrupt) {
  if (deadline === undefined) return asked;
  const { after, ...onDue } = deadline;
  return { ...asked, after_ms: durationMs(after), on_due: onDue };
}

/** Tells a repeat of what was recorded already from an attempt that was overtaken. */
async function moreAfter(
  database: Database,
  tenant: string,
  threadId: string,
  end: SegmentEnd,
): Promise<boolean> {
  const { rows } = await database.prepared<{ status: string; fence: string; unfinished_runs: number }>(
    `SELECT r.status, t.fence, t.unfinished_runs FROM ${database.table('runs')} r
     JOIN ${database.table('threads')} t USING (tenant_id, thread_id) WHERE r.tenant_id = $1 AND r.run_id = $2`,
    [tenant, end.run_id],
  );
  const row = rows[0];
  const recorded = row?.status === end.status || row?.status === 'rolled_back';
  if (recorded && Number(row.fence) === end.fence) return row.unfinished_runs > 0;
  throw new StaleFenceError(threadId, { run_id: end.run_id, fence: end.fence });
}
