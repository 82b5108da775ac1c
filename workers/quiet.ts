import { setTimeout as delay } from 'node:timers/promises';
import type { Worker } from '@temporalio/worker';

const LOOK_MS = 20;
/** How long nothing may have been in hand: longer than Temporal takes from the end of an activity to the next task. */
const QUIET_MS = 150;
/** A node that takes longer holds nobody up. */
const LIMIT_MS = 500;

/** Waits until the workers have nothing in hand but `kept` activities, for half a second at most. */
export async function quiet(workers: readonly Worker[], kept: () => number): Promise<void> {
  const begun = Date.now();
  let quietSince = begun;
  while (Date.now() - quietSince < QUIET_MS && Date.now() - begun < LIMIT_MS) {
    await delay(LOOK_MS);
    const inHand = workers.map((worker) => {
      const { numInFlightActivities, numInFlightWorkflowActivations } = worker.getStatus();
      return numInFlightActivities + numInFlightWorkflowActivations;
    });
    if (inHand.reduce((sum, one) => sum + one, 0) > kept()) quietSince = Date.now();
  }
}
