import type { Client } from '@temporalio/client';
import { isPerdureError } from '../src/contracts/errors.ts';
import { endOrphans } from '../src/client/orphans.ts';
import { endOnOtherQueue, isAwake, signalCancel, wakeThread, type WakeTarget } from '../src/client/wake.ts';
import { mirrorSchedules } from '../src/client/schedule-mirror.ts';
import type { Database } from '../src/postgres/database.ts';
import type { Logger } from '../src/telemetry/log.ts';
import { straySettled, strayThreads, type StrayThread } from '../src/threads/stray-workflows.ts';
import { fireDue, overdueThreads } from '../src/threads/deadlines.ts';
import { releaseForgotten } from '../src/threads/held-runs.ts';
import { fireSchedule, overdueSchedules } from '../src/threads/schedules.ts';
import type { RestoreWatch } from '../src/threads/restore-watch.ts';
import {
  sampleSignalled,
  takeUnsignalled,
  wakeEverything,
  type UnfinishedRun,
} from '../src/threads/wake-list.ts';

/** How often the sweeper looks, in ms. */
const SWEEP_MS = 1_000;
/** Threads that were migrated and whose old workflows one sweep ends. */
const STRAYS = 200;
/** How many sweeps pass between two looks whether Temporal still has what it was told, and at how many threads. */
const PROBE_EVERY = 5;
const PROBES = 3;

type Sweeper = { stop(): Promise<void> };

type SweeperOptions = { database: Database; temporal: Client; logger: Logger; watch: RestoreWatch };

/**
 * Wakes threads whose runs nobody told Temporal of (a crash in between, a Temporal that was away), and those whose
 * workflow is gone (a wiped namespace) or sits on the task queue of a version that the thread has left; does what is
 * overdue since a timer was lost. Any number of sweepers may run; each worker has one.
 */
export function startSweeper(options: SweeperOptions): Sweeper {
  let stopped = false;
  let timer: NodeJS.Timeout | undefined;
  let round = Promise.resolve();
  const state = { sweeps: 0 };
  const next = () => {
    if (stopped) return;
    timer = setTimeout(() => {
      round = sweep(options, state)
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

async function sweep(options: SweeperOptions, state: { sweeps: number }): Promise<void> {
  const { database, temporal, logger, watch } = options;
  await watch.check();
  // A worker that starts knows nothing of what was lost before.
  if (state.sweeps === 0) await wakeEverything(database);
  state.sweeps += 1;
  if (state.sweeps % PROBE_EVERY === 0 && (await hasForgotten(options))) {
    logger.error({}, 'Temporal has lost workflows that it was told of: all unfinished threads are woken');
    await wakeEverything(database);
  }
  if (watch.unsettled) {
    for (const thread of await endOrphans(database, temporal))
      logger.error(thread, 'Postgres does not know this thread any more: ask again for what was asked of it');
    watch.unsettled = false;
  }
  const strays = await strayThreads(database, STRAYS);
  await Promise.all(strays.map((thread) => settleStray(temporal, database, thread)));
  for (const thread of await releaseForgotten(database))
    logger.warn(thread, 'input was held on a thread that asks about no operation; it goes on');
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

/** Whether Temporal has no open workflow for a thread that it was told to run. */
async function hasForgotten({ database, temporal }: SweeperOptions): Promise<boolean> {
  const sample = await sampleSignalled(database, PROBES);
  const awake = await Promise.all(
    sample.map((run) => isAwake(temporal, { schema: database.schema, ...run })),
  ).catch((error: unknown) => {
    // Away is not the same as empty.
    if (isPerdureError(error, 'TEMPORAL_UNAVAILABLE')) return [true];
    throw error;
  });
  return awake.includes(false);
}

async function settleStray(temporal: Client, database: Database, thread: StrayThread): Promise<void> {
  const target: WakeTarget = { schema: database.schema, ...thread };
  await endOnOtherQueue(temporal, target);
  const run = await straySettled(database, thread);
  if (run) await (run.cancel ? signalCancel : wakeThread)(temporal, target, run.run_id);
}

/**
 * Signals even where a workflow is open: it may have been told of something that Postgres, put back to a backup, has
 * forgotten, and wait for what has been. A signal too many does no harm.
 */
async function wakeIfNeeded(temporal: Client, schema: string, run: UnfinishedRun): Promise<void> {
  const { tenant_id, thread_id, graph, version } = run;
  const target: WakeTarget = { schema, tenant_id, thread_id, graph, version };
  // A signal that did not help may have gone to a workflow that somebody opened with an older view of the thread.
  if (run.signals > 1) await endOnOtherQueue(temporal, target);
  await (run.cancel ? signalCancel : wakeThread)(temporal, target, run.run_id);
}
