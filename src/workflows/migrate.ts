import { proxyActivities } from '@temporalio/workflow';
import type { MigrateActivities, MigrateRequest, ThreadMigration } from '../contracts/migrate-workflow.ts';

const { migrateBatch } = proxyActivities<MigrateActivities>({
  // The code of a migration is the user's and may take its time; each thread is a sign of life.
  startToCloseTimeout: '1 hour',
  heartbeatTimeout: '1 minute',
  retry: { initialInterval: '100 milliseconds', backoffCoefficient: 2, maximumInterval: '5 seconds' },
});

/** Moves some threads to the version whose task queue this runs on, and says what became of each. */
export async function migrateThreads(request: MigrateRequest): Promise<ThreadMigration[]> {
  return migrateBatch(request);
}
