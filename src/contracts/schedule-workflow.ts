/** What the workflow behind a Temporal Schedule and its activity say to each other; it goes into the workflow bundle. */

/** Temporal's name for it. It is in recorded histories: never rename. */
export const FIRE_SCHEDULE_WORKFLOW = 'fireSchedule';

export type FireScheduleRequest = { tenant_id: string; name: string };

export type ScheduleActivities = {
  /** Begins the run that is due, if any. @returns its id. */
  beginScheduledRun(request: FireScheduleRequest): Promise<string | null>;
};
