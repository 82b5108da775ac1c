import { errorRecord, type ErrorRecord } from '../contracts/json.ts';
import type { EffectsMode, RunConfig, RunKind } from '../contracts/runs.ts';
import type { Database } from '../postgres/database.ts';

/** A task as its segment handed it out. */
export type TaskToBegin = {
  thread_id: string;
  run_id: string;
  task_id: string;
  fence: number;
  /** Names this attempt. */
  token: string;
};

/** An attempt on one task, and the run that it is part of. */
export type BegunTask = {
  run_id: string;
  kind: RunKind;
  config: RunConfig;
  cancel_requested: boolean;
  effects: EffectsMode;
  rewound: boolean;
  checkpoint_thread_id: string;
  lineage_root: string;
  head_checkpoint_id: string | null;
  state_version: number;
  branch_id: string | null;
  branch_effects: EffectsMode | null;
  /** Attempts on the task that began in this run, this one included. */
  attempts: number;
  /** Those of them that ended in an error of the node. */
  errors: number;
};

/**
 * Begins an attempt on a task. From this moment on no earlier attempt on it can store the task's writes.
 * Undefined when a newer segment holds the thread, the run has ended, or the thread was deleted.
 */
export async function beginTask(
  database: Database,
  tenant: string,
  task: TaskToBegin,
): Promise<BegunTask | undefined> {
  const { rows } = await database.prepared<BegunTask>(
    `WITH t AS MATERIALIZED (
       SELECT checkpoint_thread_id, lineage_root, head_checkpoint_id, state_version, branch_id, branch_effects
       FROM ${database.table('threads')}
       WHERE tenant_id = $1 AND thread_id = $2 AND fence = $4::bigint AND deleted_at IS NULL FOR SHARE
     ), r AS (
       SELECT run_id, kind, config, effects, rewound, cancel_requested_at IS NOT NULL AS cancel_requested
       FROM ${database.table('runs')} WHERE tenant_id = $1 AND run_id = $3 AND status = 'running'
     ), a AS (
       INSERT INTO ${database.table('task_attempts')} AS a (tenant_id, thread_id, task_id, run_id, fence, token)
       SELECT $1, $2, $5, $3::uuid, $4::bigint, $6::uuid FROM t, r
       ON CONFLICT (tenant_id, thread_id, task_id) DO UPDATE
         SET run_id = EXCLUDED.run_id, fence = EXCLUDED.fence, token = EXCLUDED.token, started_at = now(),
           attempts = CASE WHEN a.run_id = EXCLUDED.run_id THEN a.attempts + 1 ELSE 1 END,
           errors = CASE WHEN a.run_id = EXCLUDED.run_id THEN a.errors ELSE 0 END
       RETURNING attempts, errors
     )
     SELECT r.*, t.*, a.attempts, a.errors FROM t, r, a`,
    [tenant, task.thread_id, task.run_id, task.fence, task.task_id, task.token],
  );
  return rows[0];
}

/**
 * Records that an attempt ended in an error of its node.
 * @returns false when a newer attempt, or a newer segment, took over.
 */
export async function recordTaskError(
  database: Database,
  tenant: string,
  task: TaskToBegin,
  error: ErrorRecord,
): Promise<boolean> {
  const { rowCount } = await database.prepared(
    `UPDATE ${database.table('task_attempts')} AS a SET errors = a.errors + 1, error = $6::json
     FROM ${database.table('threads')} t
     WHERE t.tenant_id = $1 AND t.thread_id = $2 AND t.fence = $4::bigint AND t.deleted_at IS NULL
       AND a.tenant_id = $1 AND a.thread_id = $2 AND a.task_id = $3 AND a.token = $5::uuid`,
    [tenant, task.thread_id, task.task_id, task.fence, task.token, JSON.stringify(error)],
  );
  return rowCount === 1;
}

/** The last error of each task in a run, by the task's id. */
export async function taskErrors(
  database: Database,
  tenant: string,
  threadId: string,
  runId: string,
): Promise<Map<string, ErrorRecord>> {
  const { rows } = await database.prepared<{ task_id: string; error: unknown }>(
    `SELECT task_id, error FROM ${database.table('task_attempts')}
     WHERE tenant_id = $1 AND thread_id = $2 AND run_id = $3 AND error IS NOT NULL`,
    [tenant, threadId, runId],
  );
  return new Map(rows.map(({ task_id, error }) => [task_id, errorRecord.parse(error)]));
}

/** Forgets the attempts of a superstep that has ended. */
export async function forgetTaskAttempts(
  database: Database,
  tenant: string,
  threadId: string,
  fence: number,
): Promise<void> {
  await database.prepared(
    `DELETE FROM ${database.table('task_attempts')} WHERE tenant_id = $1 AND thread_id = $2 AND fence < $3`,
    [tenant, threadId, fence],
  );
}

/** Which of a thread's questions have been answered. */
export async function answeredOf(
  database: Database,
  tenant: string,
  threadId: string,
  interruptIds: readonly string[],
): Promise<Set<string>> {
  if (interruptIds.length === 0) return new Set();
  const { rows } = await database.prepared<{ interrupt_id: string }>(
    `SELECT interrupt_id FROM ${database.table('interrupts')}
     WHERE tenant_id = $1 AND thread_id = $2 AND interrupt_id = ANY($3) AND status = 'answered'`,
    [tenant, threadId, interruptIds],
  );
  return new Set(rows.map((row) => row.interrupt_id));
}
