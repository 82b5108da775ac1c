import { z } from 'zod';
import { graphName, graphVersion, threadId } from './ids.ts';
import { jsonValue } from './json.ts';
import { runConfig } from './runs.ts';

/** Letters, digits, `.`, `_` and `-`, at most 100. */
export const scheduleName = z
  .string()
  .regex(
    /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/,
    "a schedule's name has letters, digits, '.', '_' and '-', at most 100",
  );

/**
 * What becomes of an occurrence while the run of the one before is unfinished, or its thread waits: it is left out,
 * it waits (one at most), or it runs all the same. Named as Temporal's overlap policies.
 */
export const OVERLAPS = ['skip', 'buffer_one', 'allow_all'] as const;

/** A request to run a graph again and again. */
export const scheduleRequest = z.strictObject({
  name: scheduleName,
  graph: graphName,
  /** Default: the newest one that is known when a run is due. */
  version: graphVersion.optional(),
  /** Five fields (minute, hour, day of month, month, day of week), or `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`. */
  cron: z.string().min(1).max(200),
  /** An IANA name such as `America/New_York`. Default `UTC`. */
  timezone: z.string().min(1).max(100).optional(),
  input: jsonValue,
  config: runConfig.optional(),
  /** Default: a new thread for every run, `<name>-<time of the occurrence>`. */
  thread_id: threadId.optional(),
  /** Default `skip`. */
  overlap: z.enum(OVERLAPS).optional(),
  /** Who asks, such as `user:mira`. Default `user:unknown`. Its runs are by `schedule:<name>`. */
  actor: z.string().min(1).max(200).optional(),
});
export type ScheduleRequest = z.input<typeof scheduleRequest>;

export const scheduleView = z.object({
  name: z.string(),
  graph: z.string(),
  version: z.string().nullable(),
  cron: z.string(),
  timezone: z.string(),
  input: jsonValue,
  thread_id: z.string().nullable(),
  overlap: z.enum(OVERLAPS),
  actor: z.string(),
  paused: z.boolean(),
  /** The next occurrence; null while paused, and where there is none any more. */
  next_at: z.string().nullable(),
  /** The occurrence that waits for the run before it. */
  buffered_at: z.string().nullable(),
  /** The newest occurrence that began a run, and that run. */
  last_at: z.string().nullable(),
  last_run_id: z.string().nullable(),
  last_thread_id: z.string().nullable(),
  /** How many occurrences began no run. */
  skipped: z.int(),
  /** Why the newest occurrence could begin no run. */
  last_error: z.string().nullable(),
  created_at: z.string(),
});
export type ScheduleView = z.infer<typeof scheduleView>;
