import { createHash } from 'node:crypto';
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import type { Config } from '../config/config.ts';
import { isAlive } from '../dev/processes.ts';
import type { Servers } from './project-context.ts';

const workerRecord = z.object({
  pid: z.int().positive(),
  /** Tells this process from a later one with its pid. */
  identity: z.string(),
  /** The langgraph.json whose graphs it serves. */
  project: z.string(),
  /** What it is connected to: a digest, since a connection string holds a password. */
  installation: z.string(),
  /** Just before it read its graphs. */
  started_at: z.iso.datetime(),
  log: z.string(),
  /** Null until it was ready. */
  worker_id: z.uuid().nullable(),
  serves: z.array(z.object({ graph: z.string(), version: z.string() })),
});

/** A worker that was started by this command on this machine. */
export type WorkerRecord = z.infer<typeof workerRecord>;

const workersFile = z.object({ format: z.literal(1), home: z.string(), workers: z.array(workerRecord) });

/** Workers on record in `workers.json` of the home, living or not. A damaged file, or that of a copied home, has none. */
export function recordedWorkers(home: string): WorkerRecord[] {
  const path = pathIn(home);
  if (!existsSync(path)) return [];
  const parsed = workersFile.safeParse(parseJson(readFileSync(path, 'utf8')));
  if (!parsed.success) return [];
  const moved = parsed.data.home !== home && existsSync(parsed.data.home);
  return moved ? [] : parsed.data.workers;
}

/** Those that live. */
export async function livingWorkers(home: string): Promise<WorkerRecord[]> {
  const workers = recordedWorkers(home);
  const alive = await Promise.all(workers.map((worker) => isAlive(worker)));
  return workers.filter((_, index) => alive[index]);
}

/** The caller holds the home's lock. */
export function writeWorkers(home: string, workers: WorkerRecord[]): void {
  const path = pathIn(home);
  writeFileSync(`${path}.new`, `${JSON.stringify({ format: 1, home, workers }, null, 2)}\n`, { mode: 0o600 });
  renameSync(`${path}.new`, path);
}

/** Equal for two commands exactly when their workers would take each other's work. */
export function installationOf(config: Config, servers: Servers): string {
  const parts = [
    servers.databaseUrl,
    config.schema,
    config.tenant,
    servers.temporal.address,
    servers.temporal.namespace,
  ];
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 16);
}

function pathIn(home: string): string {
  return join(home, 'workers.json');
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}
