import { readdirSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import type { Config } from '../config/config.ts';
import { PerdureError } from '../contracts/errors.ts';
import { launchDetached } from '../dev/launch.ts';
import { isAlive, stopProcess, type StopStep } from '../dev/processes.ts';
import { tailOf, textOf } from '../dev/server-log.ts';
import { logsOf } from '../dev/servers-file.ts';
import type { Project } from '../graph/langgraph-json.ts';
import type { Environment, Servers } from './project-context.ts';
import { WORKER_FLAGS } from './worker-flags.ts';
import { installationOf, type WorkerRecord } from './workers-file.ts';

/** Longer than loading big graphs takes on a busy machine. */
const READY_LIMIT_MS = 120_000;
const POLL_MS = 40;
/** Logs of workers that are kept in a home. */
const KEPT_LOGS = 20;

/** A worker gives its segments 30 s to hand over. */
const STOP_STEPS: readonly StopStep[] = [
  { signal: 'SIGTERM', waitMs: 35_000 },
  { signal: 'SIGKILL', waitMs: 10_000 },
];

const readyLine = z.object({
  ready: z.literal(true),
  worker_id: z.uuid(),
  serves: z.array(z.object({ graph: z.string(), version: z.string() })),
});
const errorLine = z.object({ error: z.object({ code: z.string(), message: z.string() }) });

export type WorkerLaunch = {
  home: string;
  project: Project;
  config: Config;
  servers: Servers;
  env: Environment;
  cwd: string;
};

/** Starts a worker in a session of its own. It is not ready yet: see whenReady(). */
export async function launchWorker(launch: WorkerLaunch): Promise<WorkerRecord> {
  const { home, project, config, servers } = launch;
  const started_at = new Date().toISOString();
  const { record, log } = await launchDetached({
    name: 'A worker',
    command: process.execPath,
    args: [
      ...WORKER_FLAGS,
      fileURLToPath(new URL('../../workers/main.js', import.meta.url)),
      '--project',
      project.file,
    ],
    logPath: join(logsOf(home), `worker-${started_at.replace(/[-:]/g, '')}-${process.pid}.log`),
    env: workerEnvironment(launch),
    cwd: project.folder,
  });
  removeOldLogs(logsOf(home));
  const installation = installationOf(config, servers);
  return {
    ...record,
    project: project.file,
    installation,
    started_at,
    log: log.path,
    worker_id: null,
    serves: [],
  };
}

/**
 * Waits until the worker serves its graphs.
 * @throws PerdureError with the worker's own code, or WORKER_START_FAILED with the end of its log.
 */
export async function whenReady(worker: WorkerRecord): Promise<WorkerRecord> {
  const log = { path: worker.log, offset: 0 };
  const end = Date.now() + READY_LIMIT_MS;
  for (;;) {
    // In this order: what a worker wrote before it ended is in its log.
    const alive = await isAlive(worker);
    const lines = textOf(log).split('\n').map(parseLine);
    const ready = lines.map((line) => readyLine.safeParse(line)).find(({ success }) => success)?.data;
    if (ready && alive) return { ...worker, worker_id: ready.worker_id, serves: ready.serves };
    if (!alive) {
      const said = lines.map((line) => errorLine.safeParse(line)).findLast(({ success }) => success)
        ?.data?.error;
      if (said)
        throw new PerdureError(said.code, `The worker can't serve ${worker.project}: ${said.message}`, {
          log: worker.log,
        });
      throw new PerdureError(
        'WORKER_START_FAILED',
        `The worker for ${worker.project} ended at its start. ${tailOf(log)}`,
        { log: worker.log },
      );
    }
    if (Date.now() > end) {
      await stopWorker(worker);
      throw new PerdureError(
        'WORKER_START_FAILED',
        `The worker for ${worker.project} was not ready after ${READY_LIMIT_MS / 1_000} s and was stopped. ${tailOf(log)}`,
        { log: worker.log },
      );
    }
    await delay(POLL_MS);
  }
}

/** Lets it hand its segments over, and ends it by force when it doesn't. @throws ServerStopError */
export async function stopWorker(worker: WorkerRecord): Promise<void> {
  await stopProcess('The worker', worker, STOP_STEPS);
}

function workerEnvironment({ env, cwd, config, servers }: WorkerLaunch): NodeJS.ProcessEnv {
  const made: NodeJS.ProcessEnv = { ...env };
  for (const name of Object.keys(made).filter((key) => /^TEMPORAL_(API_KEY|TLS)/.test(key))) {
    // Paths are meant from where the command was typed; the worker works in the project's folder.
    if (config.temporal.address === undefined) delete made[name];
    else if (name.endsWith('_PATH') && made[name]) made[name] = resolve(cwd, made[name]);
  }
  return {
    ...made,
    DATABASE_URL: servers.databaseUrl,
    PERDURE_SCHEMA: config.schema,
    TEMPORAL_ADDRESS: servers.temporal.address,
    TEMPORAL_NAMESPACE: servers.temporal.namespace,
  };
}

function removeOldLogs(folder: string): void {
  const logs = readdirSync(folder)
    .filter((name) => /^worker-.*\.log$/.test(name))
    .sort();
  for (const name of logs.slice(0, -KEPT_LOGS)) rmSync(join(folder, name), { force: true });
}

function parseLine(line: string): unknown {
  if (!line.startsWith('{')) return undefined;
  try {
    return JSON.parse(line);
  } catch (error) {
    // Half written yet, or a line of the graph's own.
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}
