import type pg from 'pg';
import { InvalidInputError, isPerdureError, UnknownScheduleError } from '../contracts/errors.ts';
import { scheduleRequest, type ScheduleRequest, type ScheduleView } from '../contracts/schedules.ts';
import type { Database } from '../postgres/database.ts';
import { checkCron, nextOccurrence } from './occurrences.ts';
import { checkRequest, recordRun, type RecordedRun } from './request-run.ts';

const iso = (column: string) => `to_char(${column} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;

const COLUMNS = `name, graph, version, cron, timezone, input, thread_id, overlap, actor, paused,
  CASE WHEN paused THEN NULL ELSE ${iso('next_at')} END AS next_at, ${iso('buffered_at')} AS buffered_at,
  ${iso('last_at')} AS last_at, last_run_id, last_thread_id, skipped, last_error, ${iso('created_at')} AS created_at`;

/**
 * Records a schedule. Its first occurrence is the first one after now.
 * @throws InvalidInputError also when a schedule of that name exists.
 */
export async function createSchedule(
  database: Database,
  tenant: string,
  request: ScheduleRequest,
): Promise<ScheduleView> {
  const parsed = scheduleRequest.safeParse(request);
  if (!parsed.success) {
    const issue = parsed.error.issues[0];
    throw new InvalidInputError(`${issue?.path.join('.') || 'schedule'}: ${issue?.message ?? 'is invalid'}`);
  }
  const { name, graph, version, cron, input, config, thread_id, overlap, actor } = parsed.data;
  const timezone = parsed.data.timezone ?? 'UTC';
  checkCron(cron, timezone);
  const { rows } = await database.query<ScheduleView>(
    `INSERT INTO ${database.table('schedules')} AS s
       (tenant_id, name, graph, version, cron, timezone, input, config, thread_id, overlap, actor, next_at)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
     ON CONFLICT (tenant_id, name) DO UPDATE SET graph = EXCLUDED.graph, version = EXCLUDED.version, cron = EXCLUDED.cron,
       timezone = EXCLUDED.timezone, input = EXCLUDED.input, config = EXCLUDED.config, thread_id = EXCLUDED.thread_id,
       overlap = EXCLUDED.overlap, actor = EXCLUDED.actor, next_at = EXCLUDED.next_at, paused = false, buffered_at = NULL,
       last_at = NULL, last_run_id = NULL, last_thread_id = NULL, skipped = 0, last_error = NULL, mirrored_at = NULL,
       created_at = now(), updated_at = now(), deleted_at = NULL
     WHERE s.deleted_at IS NOT NULL
     RETURNING ${COLUMNS}`,
    [
      tenant,
      name,
      graph,
      version ?? null,
      cron,
      timezone,
      JSON.stringify(input),
      JSON.stringify(config ?? {}),
      thread_id ?? null,
      overlap ?? 'skip',
      actor ?? 'user:unknown',
      nextOccurrence(cron, timezone, new Date()),
    ],
  );
  const [row] = rows;
  if (!row)
    throw new InvalidInputError(`Schedule '${name}' exists already. Delete it first, or take another name.`, {
      name,
    });
  return row;
}

export async function listSchedules(database: Database, tenant: string): Promise<ScheduleView[]> {
  const { rows } = await database.query<ScheduleView>(
    `SELECT ${COLUMNS} FROM ${database.table('schedules')} WHERE tenant_id = $1 AND deleted_at IS NULL ORDER BY name`,
    [tenant],
  );
  return rows;
}

/** @throws UnknownScheduleError */
export async function readSchedule(database: Database, tenant: string, name: string): Promise<ScheduleView> {
  const { rows } = await database.query<ScheduleView>(
    `SELECT ${COLUMNS} FROM ${database.table('schedules')} WHERE tenant_id = $1 AND name = $2 AND deleted_at IS NULL`,
    [tenant, name],
  );
  const [row] = rows;
  if (!row) throw new UnknownScheduleError(name);
  return row;
}

/** What is changed has to be told to Temporal. A schedule that is resumed goes on with the first occurrence after now. */
export async function pauseSchedule(
  database: Database,
  tenant: string,
  name: string,
  paused: boolean,
): Promise<ScheduleView> {
  const { cron, timezone } = await readSchedule(database, tenant, name);
  await database.query(
    `UPDATE ${database.table('schedules')} SET paused = $3, next_at = CASE WHEN paused AND NOT $3 THEN $4 ELSE next_at END,
       buffered_at = CASE WHEN $3 THEN NULL ELSE buffered_at END, mirrored_at = NULL, updated_at = now()
     WHERE tenant_id = $1 AND name = $2 AND deleted_at IS NULL`,
    [tenant, name, paused, nextOccurrence(cron, timezone, new Date())],
  );
  return readSchedule(database, tenant, name);
}

/** Its runs go on. @throws UnknownScheduleError */
export async function deleteSchedule(
  database: Database,
  tenant: string,
  name: string,
): Promise<ScheduleView> {
  const schedule = await readSchedule(database, tenant, name);
  await database.query(
    `UPDATE ${database.table('schedules')} SET deleted_at = now(), mirrored_at = NULL, updated_at = now()
     WHERE tenant_id = $1 AND name = $2 AND deleted_at IS NULL`,
    [tenant, name],
  );
  return schedule;
}

type ScheduleRow = {
  graph: string;
  version: string | null;
  cron: string;
  timezone: string;
  input: null;
  config: object;
  thread_id: string | null;
  overlap: 'skip' | 'buffer_one' | 'allow_all';
  paused: boolean;
  next_at: Date | null;
  buffered_at: Date | null;
  last_thread_id: string | null;
  now: Date;
};

/**
 * Begins the run of the occurrence that is due, in one transaction under the schedule's row lock, so that each
 * occurrence begins one run, whoever asks and however often. Of several that were missed the newest counts.
 * @param now stands in for Postgres' clock. Default: that clock.
 */
export async function fireSchedule(
  database: Database,
  tenant: string,
  name: string,
  now?: Date,
): Promise<RecordedRun | undefined> {
  return database.transaction(async (client) => {
    const row = await lockSchedule(client, database, tenant, name, now);
    if (!row || row.paused) return undefined;
    const due = lastDue(row);
    const waiting = due?.at ?? row.buffered_at;
    if (waiting === null || waiting === undefined) return undefined;
    let skipped = due ? due.missed : 0;
    let buffered = row.buffered_at;
    let run: RecordedRun | undefined;
    let error: string | null = null;
    const held = row.overlap !== 'allow_all' && (await isUnderWay(client, database, tenant, row));
    if (!held) {
      // What waited has its turn with whatever is due now: one run for both.
      if (due && buffered) skipped += 1;
      buffered = null;
      [run, error] = await begin(client, database, tenant, name, row, waiting);
      if (error !== null) skipped += 1;
    } else if (due && row.overlap === 'buffer_one' && buffered === null) buffered = due.at;
    else if (due) skipped += 1;
    await client.query(
      `UPDATE ${database.table('schedules')} SET next_at = $3, buffered_at = $4, skipped = skipped + $5,
         last_at = coalesce($6, last_at), last_run_id = coalesce($7, last_run_id),
         last_thread_id = coalesce($8, last_thread_id),
         last_error = CASE WHEN $9::text IS NOT NULL THEN $9 WHEN $7::uuid IS NOT NULL THEN NULL ELSE last_error END
       WHERE tenant_id = $1 AND name = $2`,
      [
        tenant,
        name,
        due ? due.next : row.next_at,
        buffered,
        skipped,
        run ? waiting : null,
        run?.run_id ?? null,
        run?.thread_id ?? null,
        error,
      ],
    );
    return run;
  });
}

/** Begins a run now, whatever its times, its overlap and whether it is paused. @throws UnknownScheduleError, and as requestRun */
export async function triggerSchedule(
  database: Database,
  tenant: string,
  name: string,
): Promise<RecordedRun> {
  return database.transaction(async (client) => {
    const row = await lockSchedule(client, database, tenant, name);
    if (!row) throw new UnknownScheduleError(name);
    const run = await record(client, database, tenant, name, row, row.now);
    await client.query(
      `UPDATE ${database.table('schedules')} SET last_at = $3, last_run_id = $4, last_thread_id = $5, last_error = NULL
       WHERE tenant_id = $1 AND name = $2`,
      [tenant, name, row.now, run.run_id, run.thread_id],
    );
    return run;
  });
}

async function lockSchedule(
  client: pg.PoolClient,
  database: Database,
  tenant: string,
  name: string,
  now?: Date,
): Promise<ScheduleRow | undefined> {
  const { rows } = await client.query<ScheduleRow>(
    `SELECT graph, version, cron, timezone, input, config, thread_id, overlap, paused, next_at, buffered_at, last_thread_id,
       coalesce($3, clock_timestamp()) AS now
     FROM ${database.table('schedules')} WHERE tenant_id = $1 AND name = $2 AND deleted_at IS NULL FOR UPDATE`,
    [tenant, name, now ?? null],
  );
  return rows[0];
}

/** How many missed occurrences are counted at most: a schedule of every minute may have been down for years. */
const MAX_COUNTED = 100;

function lastDue({ cron, timezone, next_at: nextAt, now }: ScheduleRow) {
  if (nextAt === null || nextAt > now) return undefined;
  let at = nextAt;
  let missed = 0;
  let next = nextOccurrence(cron, timezone, at);
  while (next !== null && next <= now && missed < MAX_COUNTED) {
    at = next;
    missed += 1;
    next = nextOccurrence(cron, timezone, at);
  }
  if (next === null || next > now) return { at, missed, next };
  // Far behind: the newest one is found from the distance of the last two.
  const distance = next.getTime() - at.getTime();
  next = nextOccurrence(cron, timezone, new Date(now.getTime() - distance));
  while (next !== null && next <= now) {
    at = next;
    next = nextOccurrence(cron, timezone, at);
  }
  return { at, missed, next };
}

async function isUnderWay(
  client: pg.PoolClient,
  database: Database,
  tenant: string,
  { thread_id, last_thread_id }: ScheduleRow,
): Promise<boolean> {
  const { rowCount } = await client.query(
    `SELECT FROM ${database.table('threads')}
     WHERE tenant_id = $1 AND thread_id = $2 AND deleted_at IS NULL AND status IN ('busy', 'interrupted')`,
    [tenant, thread_id ?? last_thread_id],
  );
  return rowCount === 1;
}

async function begin(
  client: pg.PoolClient,
  database: Database,
  tenant: string,
  name: string,
  row: ScheduleRow,
  at: Date,
): Promise<[RecordedRun, null] | [undefined, string]> {
  try {
    return [await record(client, database, tenant, name, row, at), null];
  } catch (error) {
    // Such as a graph that is gone: the next occurrence may find it again, and everybody can see why this one did not.
    if (isPerdureError(error) && error.code !== 'STORAGE_UNAVAILABLE') return [undefined, error.message];
    throw error;
  }
}

async function record(
  client: pg.PoolClient,
  database: Database,
  tenant: string,
  name: string,
  row: ScheduleRow,
  at: Date,
): Promise<RecordedRun> {
  const checked = checkRequest({
    graph: row.graph,
    ...(row.version === null ? {} : { version: row.version }),
    thread_id: row.thread_id ?? `${name}-${at.toISOString()}`,
    input: row.input,
    config: row.config,
    actor: `schedule:${name}`,
  });
  const { wakes: _, ...run } = await recordRun(database, client, tenant, checked);
  return run;
}

export type DueSchedule = { tenant_id: string; name: string };

/** How long Temporal's own schedule is left to do it before the sweeper does, in ms. */
const OVERDUE_MS = 2_000;

/** Schedules that should have begun a run by now, and those where one waits that can. */
export async function overdueSchedules(database: Database, limit = 100): Promise<DueSchedule[]> {
  const { rows } = await database.query<DueSchedule>(
    `SELECT tenant_id, name FROM ${database.table('schedules')} s
     WHERE NOT paused AND deleted_at IS NULL AND (next_at < now() - $1 * interval '1 millisecond'
       OR (buffered_at IS NOT NULL AND NOT EXISTS (
         SELECT FROM ${database.table('threads')} t WHERE t.tenant_id = s.tenant_id
           AND t.thread_id = coalesce(s.thread_id, s.last_thread_id) AND t.status IN ('busy', 'interrupted'))))
     ORDER BY next_at LIMIT $2`,
    [OVERDUE_MS, limit],
  );
  return rows;
}

/** How often Temporal is looked at whether it still has the schedule, in ms. */
const LOOK_AGAIN_MS = 60_000;

export type UnmirroredSchedule = DueSchedule & {
  cron: string;
  timezone: string;
  paused: boolean;
  deleted: boolean;
  /** Temporal has not been told of the newest change. */
  changed: boolean;
};

/**
 * Schedules that Temporal has to be told of, or may have lost. They are marked as told by the same statement, so that
 * several share the work; whoever fails marks them as untold again.
 */
export async function takeUnmirrored(
  database: Database,
  only?: DueSchedule,
  limit = 20,
): Promise<UnmirroredSchedule[]> {
  const { rows } = await database.query<UnmirroredSchedule>(
    `WITH due AS (
       SELECT tenant_id, name, mirrored_at IS NULL AS changed FROM ${database.table('schedules')}
       WHERE CASE WHEN $2::text IS NULL
         THEN (mirrored_at IS NULL AND updated_at < now() - interval '1 second')
           OR (deleted_at IS NULL AND mirrored_at < now() - $1 * interval '1 millisecond')
         ELSE tenant_id = $2 AND name = $3 AND mirrored_at IS NULL END
       LIMIT $4 FOR UPDATE SKIP LOCKED
     )
     UPDATE ${database.table('schedules')} AS s SET mirrored_at = now() FROM due
     WHERE s.tenant_id = due.tenant_id AND s.name = due.name
     RETURNING s.tenant_id, s.name, s.cron, s.timezone, s.paused, s.deleted_at IS NOT NULL AS deleted, due.changed`,
    [LOOK_AGAIN_MS, only?.tenant_id ?? null, only?.name ?? null, limit],
  );
  return rows;
}

export async function markUnmirrored(database: Database, { tenant_id, name }: DueSchedule): Promise<void> {
  await database.query(
    `UPDATE ${database.table('schedules')} SET mirrored_at = NULL, updated_at = now() WHERE tenant_id = $1 AND name = $2`,
    [tenant_id, name],
  );
}
