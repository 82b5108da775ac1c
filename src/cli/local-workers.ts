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

/** `elsewhere`: none of ours was needed. `restarted`: an edit made the old one obsolete. */
export type EnsuredWorker =
  { started: 'already' | 'now' | 'restarted'; worker: WorkerRecord } | { started: 'elsewhere' };

/**
 * Sees to it that a worker with the project's present code runs: one that was started from older files is replaced,
 * the new one first. Where both servers are the user's own and workers elsewhere serve `wanted`, starts none.
 * @throws PerdureError with the reason of a worker that can't start; one that ran before goes on.
 */
export async function ensureWorker(
  need: WorkerNeed,
  wanted?: { graph: string; version: string },
): Promise<EnsuredWorker> {
  const { config, onProgress } = need;
  const known = existsSync(config.home)
    ? current(await livingWorkers(realpathSync(config.home)), need)
    : undefined;
  if (known) return { started: 'already', worker: known };
  const home = makeHome(config.home);
  return withHomeLock(home, onProgress, async () => {
    const living = await forgetEnded(home, need);
    const ours = living.filter((worker) => isFor(worker, need));
    const already = current(ours, need) ?? (await finishStarted(home, ours, need));
    if (already) return { started: 'already', worker: already };
    if (ours.length === 0 && wanted !== undefined && (await servedElsewhere(need, wanted)))
      return { started: 'elsewhere' };
    onProgress(
      ours.length > 0
        ? 'the project has changed: starting a new worker'
        : `starting a worker for ${need.project.file}`,
    );
    const launched = await launchWorker({ ...need, home });
    writeWorkers(home, [...living, launched]);
    const worker = await whenReady(launched).catch((error: unknown) => {
      writeWorkers(home, living);
      throw error;
    });
    writeWorkers(home, [...living, worker]);
    if (ours.length > 0) onProgress('waiting for the old worker to hand over');
    await Promise.all(ours.map(stopWorker));
    writeWorkers(home, [...living.filter((one) => !ours.includes(one)), worker]);
    return { started: ours.length > 0 ? 'restarted' : 'now', worker };
  });
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
function current(workers: WorkerRecord[], need: WorkerNeed): WorkerRecord | undefined {
  return workers.find(
    (worker) =>
      worker.worker_id !== null &&
      isFor(worker, need) &&
      !changedSince(need.project, Date.parse(worker.started_at), need.ignoredFiles),
  );
}

/** A worker whose starter was stopped before it was ready. */
async function finishStarted(
  home: string,
  ours: WorkerRecord[],
  need: WorkerNeed,
): Promise<WorkerRecord | undefined> {
  const unready = ours.find((worker) => worker.worker_id === null);
  if (!unready) return undefined;
  const ready = await whenReady(unready).catch(() => undefined);
  if (!ready) return undefined;
  writeWorkers(
    home,
    recordedWorkers(home).map((worker) => (worker.pid === ready.pid ? ready : worker)),
  );
  return current([ready], need);
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
