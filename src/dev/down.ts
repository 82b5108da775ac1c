import { existsSync, realpathSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { HomeUnusableError } from './errors.ts';
import { withHomeLock } from './home-lock.ts';
import { outsidePlaceOf } from './postgres-place.ts';
import { isHome, readServersFile } from './servers-file.ts';
import { stopPostgres, stopTemporal } from './stop-servers.ts';

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
 * @throws ServerStopError when a server belongs to another user or does not go; the other one is stopped.
 * @throws HomeLockedError, HomeUnusableError
 */
export async function down(options: DownOptions): Promise<{ stopped: StoppedServer[] }> {
  const onProgress = options.onProgress ?? (() => undefined);
  if (!existsSync(options.home)) {
    onProgress('no servers of this home run');
    return { stopped: [] };
  }
  const home = realpathSync(options.home);
  return await withHomeLock(home, onProgress, async () => {
    const file = readServersFile(home, onProgress);
    const [temporal, postgres] = await Promise.allSettled([stopTemporal(file), stopPostgres(file)]);
    const stopped = [...stoppedOf('temporal', temporal), ...stoppedOf('postgres', postgres)];
    for (const { name, pid } of stopped)
      onProgress(`stopped ${name === 'temporal' ? 'Temporal' : 'Postgres'} (pid ${pid})`);
    if (temporal.status === 'rejected') throw temporal.reason;
    if (postgres.status === 'rejected') throw postgres.reason;
    if (stopped.length === 0) onProgress('no servers of this home run');
    return { stopped };
  });
}

/**
 * Stops the home's servers and removes the home with all its data, wherever that lies. It can't be undone.
 * @throws HomeUnusableError when the folder isn't one that `up` made.
 */
export async function removeHome(options: DownOptions): Promise<void> {
  if (!existsSync(options.home)) return;
  if (!isHome(options.home)) {
    throw new HomeUnusableError(`${options.home} is not a perdure home; nothing was removed.`, {
      home: options.home,
    });
  }
  await down(options);
  const outside = outsidePlaceOf(realpathSync(options.home));
  if (outside !== undefined) await rm(outside, { recursive: true, force: true });
  await rm(options.home, { recursive: true, force: true });
}

function stoppedOf(name: StoppedServer['name'], result: PromiseSettledResult<number[]>): StoppedServer[] {
  return result.status === 'fulfilled' ? result.value.map((pid) => ({ name, pid })) : [];
}
