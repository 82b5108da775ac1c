import { join } from 'node:path';
import { DATA, postgresDirectoryOf, UNFINISHED_DATA } from './postgres-place.ts';
import { findProcesses, isAlive, stopProcess, type ProcessRecord, type StopStep } from './processes.ts';
import type { ServersFile } from './servers-file.ts';

/** Fast shutdown (open transactions are rolled back), then immediate, then by force. */
const POSTGRES_STEPS: readonly StopStep[] = [
  { signal: 'SIGINT', waitMs: 30_000 },
  { signal: 'SIGQUIT', waitMs: 10_000 },
  { signal: 'SIGKILL', waitMs: 10_000 },
];

const TEMPORAL_STEPS: readonly StopStep[] = [
  { signal: 'SIGTERM', waitMs: 20_000 },
  { signal: 'SIGKILL', waitMs: 10_000 },
];

/**
 * Stops this home's Postgres: the one on record, and any that an interrupted start (or a lost record) left on its
 * data. The caller holds the home's lock.
 * @returns the pids that were stopped and are gone.
 * @throws ServerStopError
 */
export async function stopPostgres(file: ServersFile): Promise<number[]> {
  const directory = postgresDirectoryOf(file.servers.home);
  const found =
    directory === undefined
      ? []
      : [
          ...(await findProcesses(join(directory, DATA), '-D')),
          // An initdb, and what it runs, whose `up` was killed.
          ...(await findProcesses(join(directory, UNFINISHED_DATA))),
        ];
  const stopped = await stopAll('Postgres', file.servers.postgres.process, found, POSTGRES_STEPS);
  if (file.servers.postgres.process !== undefined) file.updatePostgres({ process: undefined });
  return stopped;
}

/** Stops this home's Temporal, as `stopPostgres` does. */
export async function stopTemporal(file: ServersFile): Promise<number[]> {
  const found = await findProcesses(join(file.servers.home, 'temporal'), 'start-dev');
  const stopped = await stopAll('Temporal', file.servers.temporal.process, found, TEMPORAL_STEPS);
  if (file.servers.temporal.process !== undefined) file.updateTemporal({ process: undefined });
  return stopped;
}

async function stopAll(
  name: string,
  recorded: ProcessRecord | undefined,
  found: readonly ProcessRecord[],
  steps: readonly StopStep[],
): Promise<number[]> {
  const records = found.filter(({ pid }) => pid !== recorded?.pid);
  if (recorded !== undefined && (await isAlive(recorded))) records.unshift(recorded);
  for (const record of records) await stopProcess(name, record, steps);
  return records.map(({ pid }) => pid);
}
