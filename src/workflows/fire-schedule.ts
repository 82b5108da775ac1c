import { proxyActivities } from '@temporalio/workflow';
import type { FireScheduleRequest, ScheduleActivities } from '../contracts/schedule-workflow.ts';

const { beginScheduledRun } = proxyActivities<ScheduleActivities>({
  // One transaction and one signal.
  startToCloseTimeout: '30 seconds',
  retry: { initialInterval: '50 milliseconds', backoffCoefficient: 2, maximumInterval: '5 seconds' },
});

/** What a Temporal Schedule starts: whether a run is due is decided in Postgres. */
export async function fireSchedule(request: FireScheduleRequest): Promise<string | null> {
  return beginScheduledRun(request);
}
