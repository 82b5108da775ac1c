import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { reasonOf, ServerStartError } from './errors.ts';
import type { OsUser } from './os-user.ts';
import { recordOf, type ProcessRecord } from './processes.ts';
import { closeServerLog, openServerLog, tailOf, type ServerLog } from './server-log.ts';

/** A server process to be started. */
export interface Launch {
  name: string;
  command: string;
  args: string[];
  logPath: string;
  env: NodeJS.ProcessEnv;
  cwd: string;
  user?: OsUser | undefined;
}

/** A server process that was started and whose first lines may be in its log. */
export interface Launched {
  record: ProcessRecord;
  log: Pick<ServerLog, 'path' | 'offset'>;
}

/**
 * Starts a server in a session of its own, so that it outlives this process and no Ctrl-C of its terminal reaches it.
 * @throws ServerStartError when the command can't be run.
 */
export async function launchDetached(launch: Launch): Promise<Launched> {
  const log = openServerLog(launch.logPath);
  try {
    const child = spawn(launch.command, launch.args, {
      detached: true,
      stdio: ['ignore', log.fd, log.fd],
      env: launch.env,
      cwd: launch.cwd,
      ...launch.user,
    });
    await once(child, 'spawn');
    child.unref();
    const record = child.pid === undefined ? undefined : await recordOf(child.pid);
    if (record === undefined) {
      throw new ServerStartError(`${launch.name} ended as soon as it was started. ${tailOf(log)}`);
    }
    return { record, log };
  } catch (error) {
    if (error instanceof ServerStartError) throw error;
    throw new ServerStartError(`${launch.command} can't be run: ${reasonOf(error)}`, {}, { cause: error });
  } finally {
    closeServerLog(log);
  }
}
