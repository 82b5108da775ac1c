import type { Client } from '@temporalio/client';
import { isPerdureError } from '../contracts/errors.ts';
import type { ScheduleRequest, ScheduleView } from '../contracts/schedules.ts';
import type { Database } from '../postgres/database.ts';
import type { RecordedRun } from '../threads/request-run.ts';
import {
  createSchedule,
  deleteSchedule,
  listSchedules,
  pauseSchedule,
  readSchedule,
  triggerSchedule,
} from '../threads/schedules.ts';
import { mirrorSchedules } from './schedule-mirror.ts';

export type SchedulesParts = {
  database: Database;
  temporal: Client;
  tenant: string;
  /** Wakes the thread of a run that was recorded. */
  wake: (run: RecordedRun) => Promise<void>;
};

/** Runs that come again and again. What is recorded here holds, also while Temporal is away. */
export class Schedules {
  readonly #parts: SchedulesParts;

  constructor(parts: SchedulesParts) {
    this.#parts = parts;
  }

  /** @throws InvalidInputError also when a schedule of that name exists. */
  create(request: ScheduleRequest): Promise<ScheduleView> {
    return this.#changed(createSchedule(this.#parts.database, this.#parts.tenant, request));
  }

  list(): Promise<ScheduleView[]> {
    return listSchedules(this.#parts.database, this.#parts.tenant);
  }

  /** @throws UnknownScheduleError */
  get(name: string): Promise<ScheduleView> {
    return readSchedule(this.#parts.database, this.#parts.tenant, name);
  }

  /** What is due meanwhile is not made up for. @throws UnknownScheduleError */
  pause(name: string): Promise<ScheduleView> {
    return this.#changed(pauseSchedule(this.#parts.database, this.#parts.tenant, name, true));
  }

  /** @throws UnknownScheduleError */
  resume(name: string): Promise<ScheduleView> {
    return this.#changed(pauseSchedule(this.#parts.database, this.#parts.tenant, name, false));
  }

  /** Runs that it began go on. @throws UnknownScheduleError */
  delete(name: string): Promise<ScheduleView> {
    return this.#changed(deleteSchedule(this.#parts.database, this.#parts.tenant, name));
  }

  /** Begins a run now, whatever its times, its overlap and whether it is paused. @throws UnknownScheduleError, and as startRun */
  async trigger(name: string): Promise<RecordedRun> {
    const run = await triggerSchedule(this.#parts.database, this.#parts.tenant, name);
    await this.#parts.wake(run);
    return run;
  }

  async #changed(change: Promise<ScheduleView>): Promise<ScheduleView> {
    const { database, temporal, tenant } = this.#parts;
    const schedule = await change;
    try {
      await mirrorSchedules(temporal, database, { tenant_id: tenant, name: schedule.name });
    } catch (error) {
      // It is recorded; the sweeper tells Temporal.
      if (!isPerdureError(error, 'TEMPORAL_UNAVAILABLE')) throw error;
    }
    return schedule;
  }
}
