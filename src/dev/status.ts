import { existsSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import { defined } from './defined.ts';
import { LOOPBACK } from './ports.ts';
import { urlOf } from './postgres-server.ts';
import { isAlive } from './processes.ts';
import { emptyOf, logsOf, readServers } from './servers-file.ts';

/** What is on record of one server, and whether its process lives. */
export interface ServerRecord {
  alive: boolean;
  pid?: number;
  port?: number;
  version?: string;
  log: string;
}

/** The servers of a home. */
export interface ServerStatus {
  home: string;
  postgres: ServerRecord & { databaseUrl?: string; dataDir?: string };
  temporal: ServerRecord & { address?: string; uiPort?: number; uiUrl?: string };
}

/**
 * What is on record of this home's servers and really lives; starts, stops and asks nothing. URLs are given for
 * living servers only.
 * @throws HomeUnusableError when the record belongs to another user.
 */
export async function serverStatus({ home }: { home: string }): Promise<ServerStatus> {
  const logs = { postgres: join(logsOf(home), 'postgres.log'), temporal: join(logsOf(home), 'temporal.log') };
  const servers = existsSync(home) ? readServers(realpathSync(home)) : emptyOf(home);
  const { postgres, temporal } = servers === 'damaged' ? emptyOf(home) : servers;
  const [postgresAlive, temporalAlive] = await Promise.all([
    isAlive(postgres.process),
    isAlive(temporal.process),
  ]);
  return {
    home,
    postgres: defined<ServerStatus['postgres']>({
      alive: postgresAlive,
      pid: postgres.process?.pid,
      port: postgres.port,
      version: postgres.version,
      log: logs.postgres,
      databaseUrl: postgresAlive ? databaseUrlOf(postgres) : undefined,
      dataDir: postgres.dataDir,
    }),
    temporal: defined<ServerStatus['temporal']>({
      alive: temporalAlive,
      pid: temporal.process?.pid,
      port: temporal.port,
      version: temporal.version,
      log: logs.temporal,
      address: temporalAlive && temporal.port !== undefined ? `${LOOPBACK}:${temporal.port}` : undefined,
      uiPort: temporal.uiPort,
      uiUrl:
        temporalAlive && temporal.uiPort !== undefined ? `http://${LOOPBACK}:${temporal.uiPort}` : undefined,
    }),
  };
}

function databaseUrlOf({
  port,
  password,
}: {
  port?: number | undefined;
  password?: string | undefined;
}): string | undefined {
  return port === undefined || password === undefined ? undefined : urlOf(port, password);
}
