import {
  ScheduleAlreadyRunning,
  ScheduleNotFoundError,
  ScheduleOverlapPolicy,
  type Client,
  type ScheduleOptions,
} from '@temporalio/client';
import { controlTaskQueue, temporalScheduleId } from '../contracts/ids.ts';
import { FIRE_SCHEDULE_WORKFLOW, type FireScheduleRequest } from '../contracts/schedule-workflow.ts';
import type { Database } from '../postgres/database.ts';
import {
  markUnmirrored,
  takeUnmirrored,
  type DueSchedule,
  type UnmirroredSchedule,
} from '../threads/schedules.ts';
import { temporalError } from './wake.ts';

/**
 * Tells Temporal of schedules that were made, changed or deleted, and of those that it has lost.
 * @param only one that was just changed. Default: whichever have to be told of.
 * @throws TemporalUnavailableError; they are told of again by the sweeper.
 */
export async function mirrorSchedules(
  temporal: Client,
  database: Database,
  only?: DueSchedule,
): Promise<void> {
  for (const schedule of await takeUnmirrored(database, only)) {
    try {
      await mirror(temporal, database.schema, schedule);
    } catch (error) {
      await markUnmirrored(database, schedule);
      throw temporalError(error);
    }
  }
}

async function mirror(temporal: Client, schema: string, schedule: UnmirroredSchedule): Promise<void> {
  const options = optionsOf(schema, schedule);
  const handle = temporal.schedule.getHandle(options.scheduleId);
  if (schedule.deleted) {
    await handle.delete().catch((error: unknown) => {
      if (!(error instanceof ScheduleNotFoundError)) throw error;
    });
    return;
  }
  try {
    await temporal.schedule.create(options);
  } catch (error) {
    if (!(error instanceof ScheduleAlreadyRunning)) throw error;
    if (schedule.changed)
      await handle.update((old) => ({
        ...old,
        spec: options.spec,
        state: { ...old.state, paused: schedule.paused },
      }));
  }
}

/**
 * Temporal skips a time that does not exist on a day when clocks change, and comes twice to one that exists twice.
 * Postgres knows better which ones count: what is started here only asks it.
 */
function optionsOf(schema: string, schedule: UnmirroredSchedule) {
  const { tenant_id, name, cron, timezone, paused } = schedule;
  const request: FireScheduleRequest = { tenant_id, name };
  const id = temporalScheduleId(schema, tenant_id, name);
  return {
    scheduleId: id,
    spec: { cronExpressions: [cron], timezone },
    action: {
      type: 'startWorkflow',
      workflowType: FIRE_SCHEDULE_WORKFLOW,
      workflowId: id,
      taskQueue: controlTaskQueue(schema),
      args: [request],
    },
    // What is missed is made up for by the sweeper.
    policies: { overlap: ScheduleOverlapPolicy.SKIP, catchupWindow: '1 minute' },
    state: { paused },
  } satisfies ScheduleOptions;
}
