import { existsSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { withHomeLock } from './home-lock.ts';
import { dataDirOf, outsidePlaceOf } from './postgres-place.ts';
import { findOrphanPostgres, POSTGRES_STOP } from './postgres-server.ts';
import { isAlive, stopProcess, type ProcessRecord } from './processes.ts';
import { readServersFile } from './servers-file.ts';
import { findOrphanTemporal, TEMPORAL_STOP } from './temporal-server.ts';

/** Which home's servers are to be stopped. */
export interface DownOptions {
  /** Absolute path of the `.perdure` folder. */
  home: string;
  onProgress?: (line: string) => void;
}

/** A server that was stopped. */
export interface StoppedServer {
  name: 'postgres' | 'temporal';
  pid: number;
}

/**
 * Stops what `up` started in this home and returns when it is gone. Only processes that are really those servers
 * are touched: a pid that now belongs to another program is forgotten. Data stays. Fine when nothing runs.
 * @throws ServerStopError when a server belongs to another user or does not go.
 */
export async function down({
  home,
  onProgress = () => undefined,
}: DownOptions): Promise<{ stopped: StoppedServer[] }> {
  if (!existsSync(home)) return { stopped: [] };
  return await withHomeLock(home, onProgress, async () => {
    const file = readServersFile(home, onProgress);
    const dataDir = dataDirOf(home);
    // Temporal first: its workers' last writes go to Postgres.
    const temporal = await withRecorded(file.servers.temporal.process, await findOrphanTemporal(home));
    const postgres = await withRecorded(
      file.servers.postgres.process,
      dataDir === undefined ? [] : await findOrphanPostgres(dataDir),
    );
    const stopped: StoppedServer[] = [];
    for (const record of temporal) {
      await stopProcess('Temporal', record, TEMPORAL_STOP);
      onProgress(`stopped Temporal (pid ${record.pid})`);
      stopped.push({ name: 'temporal', pid: record.pid });
    }
    if (file.servers.temporal.process !== undefined) file.updateTemporal({ process: undefined });
    for (const record of postgres) {
      await stopProcess('Postgres', record, POSTGRES_STOP);
      onProgress(`stopped Postgres (pid ${record.pid})`);
      stopped.push({ name: 'postgres', pid: record.pid });
    }
    if (file.servers.postgres.process !== undefined) file.updatePostgres({ process: undefined });
    if (stopped.length === 0) onProgress('no servers of this home run');
    return { stopped };
  });
}

/** Stops the home's servers and removes the home with all its data, wherever that lies. It can't be undone. */
export async function removeHome(options: DownOptions): Promise<void> {
  await down(options);
  const outside = outsidePlaceOf(options.home);
  if (outside !== undefined) await rm(outside, { recursive: true, force: true });
  await rm(options.home, { recursive: true, force: true });
}

async function withRecorded(
  recorded: ProcessRecord | undefined,
  found: readonly ProcessRecord[],
): Promise<ProcessRecord[]> {
  if (recorded === undefined || !(await isAlive(recorded))) return [...found];
  return [recorded, ...found.filter(({ pid }) => pid !== recorded.pid)];
}
