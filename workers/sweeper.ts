import type { Client } from '@temporalio/client';
import { endOnOtherQueue, isAwake, signalCancel, wakeThread, type WakeTarget } from '../src/client/wake.ts';
import { mirrorSchedules } from '../src/client/schedule-mirror.ts';
import type { Database } from '../src/postgres/database.ts';
import type { Logger } from '../src/telemetry/log.ts';
import { straySettled, strayThreads, type StrayThread } from '../src/threads/stray-workflows.ts';
import { fireDue, overdueThreads } from '../src/threads/deadlines.ts';
import { fireSchedule, overdueSchedules } from '../src/threads/schedules.ts';
import { takeUnsignalled, type UnfinishedRun } from '../src/threads/wake-list.ts';

/** How often the sweeper looks, in ms. */
const SWEEP_MS = 1_000;
/** Threads that were migrated and whose old workflows one sweep ends. */
const STRAYS = 200;

export type Sweeper = { stop(): Promise<void> };

/**
 * Wakes threads whose runs nobody told Temporal of (a crash in between, a Temporal that was away), and those whose
 * workflow is gone (a wiped namespace) or sits on the task queue of a version that the thread has left; does what is
 * overdue since a timer was lost. Any number of sweepers may run; each worker has one.
 */
export function startSweeper(options: { database: Database; temporal: Client; logger: Logger }): Sweeper {
  let stopped = false;
  let timer: NodeJS.Timeout | undefined;
  let round = Promise.resolve();
  const next = () => {
    if (stopped) return;
    timer = setTimeout(() => {
      round = sweep(options)
        .catch((error: unknown) =>
          options.logger.warn({ error: String(error) }, 'a sweep failed; it will be tried again'),
        )
        .finally(next);
    }, SWEEP_MS);
  };
  next();
  return {
    async stop() {
      stopped = true;
      clearTimeout(timer);
      await round;
    },
  };
}

async function sweep({ database, temporal }: { database: Database; temporal: Client }): Promise<void> {
  const strays = await strayThreads(database, STRAYS);
  await Promise.all(strays.map((thread) => settleStray(temporal, database, thread)));
  const runs = await takeUnsignalled(database);
  await Promise.all(runs.map((run) => wakeIfNeeded(temporal, database.schema, run)));
  for (const { tenant_id, thread_id } of await overdueThreads(database)) {
    const { run } = await fireDue(database, tenant_id, thread_id);
    if (run) await wakeThread(temporal, { schema: database.schema, tenant_id, ...run }, run.run_id);
  }
  for (const { tenant_id, name } of await overdueSchedules(database)) {
    const run = await fireSchedule(database, tenant_id, name);
    if (run) await wakeThread(temporal, { schema: database.schema, tenant_id, ...run }, run.run_id);
  }
  await mirrorSchedules(temporal, database);
}

async function settleStray(temporal: Client, database: Database, thread: StrayThread): Promise<void> {
  const target: WakeTarget = { schema: database.schema, ...thread };
  await endOnOtherQueue(temporal, target);
  const run = await straySettled(database, thread);
  if (run) await (run.cancel ? signalCancel : wakeThread)(temporal, target, run.run_id);
}

async function wakeIfNeeded(temporal: Client, schema: string, run: UnfinishedRun): Promise<void> {
  const { tenant_id, thread_id, graph, version } = run;
  const target: WakeTarget = { schema, tenant_id, thread_id, graph, version };
  // A signal that did not help may have gone to a workflow that somebody opened with an older view of the thread.
  if (run.signals > 1) await endOnOtherQueue(temporal, target);
  if (run.cancel) return signalCancel(temporal, target, run.run_id);
  // A run in hand needs no signal as long as its workflow lives; one that still waits may have been forgotten.
  if (run.status === 'running' && (await isAwake(temporal, target))) return;
  await wakeThread(temporal, target, run.run_id);
}
