import { proxyActivities } from '@temporalio/workflow';

const { nothing } = proxyActivities<{ nothing(): Promise<void> }>({ startToCloseTimeout: '1 minute' });

/** So many activities that do nothing, one after the other. */
export async function bareActivities(count: number): Promise<void> {
  for (let done = 0; done < count; done += 1) await nothing();
}
