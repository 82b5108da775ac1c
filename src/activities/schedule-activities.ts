import type { FireScheduleRequest, ScheduleActivities } from '../contracts/schedule-workflow.ts';
import { machineryFailure } from './machinery-failure.ts';

export type ScheduleActivityOptions = {
  /** Begins the run that is due, and wakes its thread. */
  fire: (request: FireScheduleRequest) => Promise<string | null>;
};

export function createScheduleActivities({ fire }: ScheduleActivityOptions): ScheduleActivities {
  return {
    async beginScheduledRun(request) {
      try {
        return await fire(request);
      } catch (error) {
        throw machineryFailure(error);
      }
    },
  };
}
