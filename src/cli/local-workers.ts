import { existsSync, realpathSync } from 'node:fs';
import type { Config } from '../config/config.ts';
import { withHomeLock } from '../dev/home-lock.ts';
import { isAlive } from '../dev/processes.ts';
import { makeHome } from '../dev/servers-file.ts';
import type { Project } from '../graph/langgraph-json.ts';
import type { Database } from '../postgres/database.ts';
import { listGraphVersions } from '../threads/graph-versions.ts';
import { forgetWorker } from '../threads/workers.ts';
import type { Environment, Servers } from './project-context.ts';
import { changedSince } from './source-changes.ts';
import { launchWorker, stopWorker, whenReady } from './worker-process.ts';
import {
  installationOf,
  livingWorkers,
  recordedWorkers,
  writeWorkers,
  type WorkerRecord,
} from './workers-file.ts';

export type WorkerNeed = {
  project: Project;
  config: Config;
  servers: Servers;
  database: Database;
  env: Environment;
  cwd: string;
  /** Files whose change does not make a worker obsolete, such as the input of the run at hand. */
  ignoredFiles?: readonly string[];
  onProgress: (line: string) => void;
};

/** `restarted`: an edit made the one before it obsolete. */
export type StartedWorker = { started: 'already' | 'now' | 'restarted'; worker: WorkerRecord };

/** `elsewhere`: none of ours was needed. */
export type EnsuredWorker = StartedWorker | { started: 'elsewhere' };

/**
 * Sees to it that a worker with the project's present code runs: those that were started from older files are replaced,
 * the new ones first. Where both servers are the user's own and workers elsewhere serve `wanted`, starts none.
 * @throws PerdureError with the reason of a worker that can't start; those that ran before go on.
 */
export async function ensureWorker(
  need: WorkerNeed,
  wanted?: { graph: string; version: string },
): Promise<EnsuredWorker> {
  const { config } = need;
  const [known] = existsSync(config.home)
    ? current(await livingWorkers(realpathSync(config.home)), need)
    : [];
  if (known) return { started: 'already', worker: known };
  return withHomeLock(makeHome(config.home), need.onProgress, async () => {
    const { ours, currently } = await lookAround(need);
    if (currently[0]) return { started: 'already', worker: currently[0] };
    if (ours.length === 0 && wanted !== undefined && (await servedElsewhere(need, wanted)))
      return { started: 'elsewhere' };
    const [worker] = await replaceWith(need, Math.max(1, ours.length), ours, []);
    if (!worker) throw new Error('a worker was started and is not there');
    return { started: ours.length > 0 ? 'restarted' : 'now', worker };
  });
}

/**
 * As {@link ensureWorker}, for exactly `count` workers; without a count, as many as there are, and at least one.
 * Those that are too many hand over and end.
 */
export async function ensureWorkers(need: WorkerNeed, count?: number): Promise<StartedWorker[]> {
  return withHomeLock(makeHome(need.config.home), need.onProgress, async () => {
    const { ours, currently } = await lookAround(need);
    const keep = currently.slice(0, count ?? Math.max(1, ours.length));
    const started = (worker: WorkerRecord, how: StartedWorker['started']) => ({ started: how, worker });
    const missing = (count ?? Math.max(1, ours.length)) - keep.length;
    const old = ours.filter((worker) => !keep.includes(worker));
    const fresh = await replaceWith(need, missing, old, keep);
    return [
      ...keep.map((worker) => started(worker, 'already')),
      ...fresh.map((worker, index) => started(worker, index < old.length ? 'restarted' : 'now')),
    ];
  });
}

/** What is on record: the workers for these servers and this project, and those of them with its present code. */
async function lookAround(need: WorkerNeed): Promise<{ ours: WorkerRecord[]; currently: WorkerRecord[] }> {
  const home = realpathSync(need.config.home);
  const ours = (await forgetEnded(home, need)).filter((worker) => isFor(worker, need));
  const ready = await finishStarted(home, ours);
  return { ours: ready, currently: current(ready, need) };
}

/** Starts workers, then ends others. */
async function replaceWith(
  need: WorkerNeed,
  count: number,
  old: readonly WorkerRecord[],
  kept: readonly WorkerRecord[],
): Promise<WorkerRecord[]> {
  const { onProgress } = need;
  const home = realpathSync(need.config.home);
  const others = recordedWorkers(home);
  const which = count === 1 ? 'a worker' : `${count} workers`;
  if (count > 0)
    onProgress(
      old.length > 0
        ? `the project has changed: starting ${which}`
        : `starting ${which} for ${need.project.file}`,
    );
  const launched: WorkerRecord[] = [];
  let fresh: WorkerRecord[];
  try {
    for (let begun = 0; begun < count; begun += 1) {
      launched.push(await launchWorker({ ...need, home }));
      writeWorkers(home, [...others, ...launched]);
    }
    fresh = await Promise.all(launched.map(whenReady));
  } catch (error) {
    await Promise.all(launched.map(stopWorker));
    writeWorkers(home, others);
    throw error;
  }
  writeWorkers(home, [...others, ...fresh]);
  if (old.length > 0)
    onProgress(
      count > 0
        ? `waiting for the old ${old.length === 1 ? 'worker' : 'workers'} to hand over`
        : `ending ${old.length === 1 ? 'a worker' : `${old.length} workers`} of ${old.length + kept.length}`,
    );
  await Promise.all(old.map(stopWorker));
  const ended = new Set(old.map(({ pid }) => pid));
  writeWorkers(home, [...others.filter(({ pid }) => !ended.has(pid)), ...fresh]);
  return fresh;
}

/** Stops every worker on record in the home. @returns their pids. @throws ServerStopError */
export async function stopWorkers(home: string, onProgress: (line: string) => void): Promise<number[]> {
  if (!existsSync(home) || recordedWorkers(realpathSync(home)).length === 0) return [];
  const real = realpathSync(home);
  return withHomeLock(real, onProgress, async () => {
    const living = await livingWorkers(real);
    if (living.length > 0)
      onProgress(`stopping ${living.length === 1 ? 'the worker' : `${living.length} workers`}`);
    await Promise.all(living.map(stopWorker));
    writeWorkers(real, []);
    return living.map(({ pid }) => pid);
  });
}

/** A worker for these servers and this project. */
function isFor(worker: WorkerRecord, { project, config, servers }: WorkerNeed): boolean {
  return worker.project === project.file && worker.installation === installationOf(config, servers);
}

/** Ready, and started after the newest change of the project. */
function current(workers: WorkerRecord[], need: WorkerNeed): WorkerRecord[] {
  return workers.filter(
    (worker) =>
      worker.worker_id !== null &&
      isFor(worker, need) &&
      !changedSince(need.project, Date.parse(worker.started_at), need.ignoredFiles),
  );
}

/** Waits for workers whose starter was stopped before they were ready. */
async function finishStarted(home: string, ours: WorkerRecord[]): Promise<WorkerRecord[]> {
  if (ours.every((worker) => worker.worker_id !== null)) return ours;
  const finished = await Promise.all(
    ours.map(async (worker) =>
      worker.worker_id === null ? ((await whenReady(worker).catch(() => undefined)) ?? worker) : worker,
    ),
  );
  writeWorkers(
    home,
    recordedWorkers(home).map((worker) => finished.find(({ pid }) => pid === worker.pid) ?? worker),
  );
  return finished;
}

/** Takes workers that ended by themselves off the record, and off the table that says who serves what. */
async function forgetEnded(home: string, need: WorkerNeed): Promise<WorkerRecord[]> {
  const recorded = recordedWorkers(home);
  const alive = await Promise.all(recorded.map((worker) => isAlive(worker)));
  const ended = recorded.filter((_, index) => !alive[index]);
  for (const { worker_id } of ended.filter((worker) => isFor(worker, need)))
    if (worker_id !== null) await forgetWorker(need.database, need.config.tenant, worker_id);
  const living = recorded.filter((_, index) => alive[index]);
  if (ended.length > 0) writeWorkers(home, living);
  return living;
}

async function servedElsewhere(
  { config, database }: WorkerNeed,
  wanted: { graph: string; version: string },
): Promise<boolean> {
  if (config.databaseUrl === undefined || config.temporal.address === undefined) return false;
  return (await workersServing(database, config.tenant, wanted)) > 0;
}

/** How many living workers, here or elsewhere, serve the version. */
export async function workersServing(
  database: Database,
  tenant: string,
  wanted: { graph: string; version: string },
): Promise<number> {
  const versions = await listGraphVersions(database, tenant);
  return (
    versions.find(({ graph, version }) => graph === wanted.graph && version === wanted.version)?.workers ?? 0
  );
}
