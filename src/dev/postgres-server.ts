import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { codeOf, reasonOf, ServerStartError } from './errors.ts';
import { launchDetached, type Launched } from './launch.ts';
import { postgresUser } from './os-user.ts';
import { choosePort, LOOPBACK } from './ports.ts';
import { runnableBinaries } from './postgres-binaries.ts';
import { isForPostgres, without } from './child-environment.ts';
import {
  checkDataVersion,
  initialiseData,
  newPassword,
  removeStalePostmasterPid,
  resetPassword,
  SUPERUSER,
} from './postgres-data.ts';
import { findPostgresPlace, type PostgresPlace } from './postgres-place.ts';
import { isAlive, type ProcessRecord } from './processes.ts';
import { tailOf, textOf } from './server-log.ts';
import { logsOf, portsOf, type ServersFile } from './servers-file.ts';
import { stopPostgres } from './stop-servers.ts';

/** Recovery after a crash can take a while; a clean start takes under a second. */
const READY_LIMIT_MS = 120_000;
/** A server that ran before `up` is asked this long. */
const ANSWER_LIMIT_MS = 20_000;
const ATTEMPTS = 5;
const DATABASE = 'perdure';

/** A Postgres that answers. */
export interface RunningPostgres {
  databaseUrl: string;
  pid: number;
  port: number;
  started: 'now' | 'already';
  version: string;
}

/** What starting a server needs besides its record. */
export interface StartContext {
  home: string;
  file: ServersFile;
  onProgress: (line: string) => void;
}

/**
 * Starts the home's Postgres, or finds it running, and returns once it answers and has the database `perdure`.
 * The caller holds the home's lock.
 * @throws ServerStartError with the last lines of the log.
 */
export async function startPostgres(
  context: StartContext,
  copyPlace: () => string,
): Promise<RunningPostgres> {
  const { home, file, onProgress } = context;
  const known = file.servers.postgres;
  if (known.process !== undefined && (await isAlive(known.process))) {
    const running = await already(known.process, known.port, known.password);
    if (running !== undefined) return running;
  }
  const place = await findPostgresPlace(home, await postgresUser(onProgress), onProgress);
  for (const pid of await stopPostgres(file)) {
    onProgress(`stopped a Postgres (pid ${pid}) that an interrupted start had left behind`);
  }
  const binaries = await runnableBinaries(place.user, copyPlace, onProgress);
  if (place.hasData) {
    await checkDataVersion(binaries, place);
    await removeStalePostmasterPid(place.dataDir);
  }

  let { password } = file.servers.postgres;
  if (!place.hasData) {
    onProgress('making an empty Postgres database');
    password = newPassword();
    file.updatePostgres({ password });
    await initialiseData(binaries, place, password);
  } else if (password === undefined) {
    password = newPassword();
    await resetPassword(binaries, place, password);
  }
  file.updatePostgres({ password, dataDir: place.dataDir });
  return await launchAndWait(context, binaries.postgres, place, password);
}

async function launchAndWait(
  { home, file, onProgress }: StartContext,
  command: string,
  place: PostgresPlace,
  password: string,
): Promise<RunningPostgres> {
  const tried: number[] = [];
  for (let attempt = 1; ; attempt += 1) {
    const port = await choosePort(home, file.servers.postgres.port, [
      ...tried,
      ...portsOf(file.servers.temporal),
    ]);
    const { record, log } = await launchDetached({
      name: 'Postgres',
      command,
      args: ['-D', place.dataDir, '-p', String(port), ...settings()],
      logPath: join(logsOf(home), 'postgres.log'),
      env: without(process.env, isForPostgres),
      cwd: place.dataDir,
      user: place.user,
    });
    file.updatePostgres({ port, process: record });
    try {
      const version = await untilReady({ record, log }, port, password, READY_LIMIT_MS);
      file.updatePostgres({ version });
      onProgress(`Postgres ${version} is ready on ${LOOPBACK}:${port} (pid ${record.pid})`);
      return { databaseUrl: urlOf(port, password), pid: record.pid, port, started: 'now', version };
    } catch (error) {
      await stopPostgres(file);
      const said = textOf(log);
      if (attempt >= ATTEMPTS) throw error;
      if (/could not bind|Address already in use/i.test(said)) {
        tried.push(port);
      } else if (/pre-existing shared memory block|lock file "postmaster.pid" already exists/.test(said)) {
        // The children of a server that was killed are still on their way out.
        await delay(1_000);
      } else {
        throw error;
      }
    }
  }
}

function settings(): string[] {
  const values = {
    listen_addresses: LOOPBACK,
    // Clients use TCP; a socket's path could be too long or belong to another user.
    unix_socket_directories: '',
    max_connections: '200',
  };
  return Object.entries(values).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
}

/** The server on record once it has answered; undefined when it ends meanwhile, so that a new one is started. */
async function already(
  record: ProcessRecord,
  port: number | undefined,
  password: string | undefined,
): Promise<RunningPostgres | undefined> {
  if (port === undefined || password === undefined) {
    throw new ServerStartError(
      `Postgres runs (pid ${record.pid}), but its port or password is not on record. ${RESTART}`,
    );
  }
  try {
    const version = await untilReady({ record }, port, password, ANSWER_LIMIT_MS);
    return { databaseUrl: urlOf(port, password), pid: record.pid, port, started: 'already', version };
  } catch (error) {
    if (!(await isAlive(record))) return undefined;
    throw new ServerStartError(
      `Postgres runs (pid ${record.pid}) but does not answer on ${LOOPBACK}:${port}: ${reasonOf(error)} ${RESTART}`,
      { pid: record.pid, port },
      { cause: error },
    );
  }
}

const RESTART = "Run 'perdure down', then 'perdure up'.";

/** Waits until a connection works, makes the database where missing, and returns the server's version. */
async function untilReady(
  { record, log }: Pick<Launched, 'record'> & Partial<Launched>,
  port: number,
  password: string,
  limitMs: number,
): Promise<string> {
  const end = Date.now() + limitMs;
  for (;;) {
    try {
      return await prepareDatabase(port, password);
    } catch (error) {
      const tail = log === undefined ? '' : ` ${tailOf(log)}`;
      if (!(await isAlive(record))) {
        throw new ServerStartError(
          `Postgres ended while it was starting.${tail}`,
          { port },
          { cause: error },
        );
      }
      if (!isStillStarting(error) || Date.now() > end) {
        throw new ServerStartError(
          `Postgres can't be used: ${reasonOf(error)}.${tail}`,
          { port },
          { cause: error },
        );
      }
      await delay(100);
    }
  }
}

function isStillStarting(error: unknown): boolean {
  // 57P03: starting up or recovering. 53300: all connections taken for the moment.
  const code = codeOf(error) ?? '';
  return (
    ['ECONNREFUSED', 'ECONNRESET', 'ETIMEDOUT', '57P03', '53300'].includes(code) ||
    /timeout/i.test(reasonOf(error))
  );
}

async function prepareDatabase(port: number, password: string): Promise<string> {
  const client = new pg.Client({
    host: LOOPBACK,
    port,
    user: SUPERUSER,
    password,
    database: 'postgres',
    connectionTimeoutMillis: 5_000,
    query_timeout: 20_000,
  });
  // A server that ends under an idle client would otherwise end this process as an unhandled error event.
  client.on('error', () => undefined);
  try {
    await client.connect();
    const found = await client.query('SELECT 1 FROM pg_database WHERE datname = $1', [DATABASE]);
    if (found.rowCount === 0) await client.query(`CREATE DATABASE ${client.escapeIdentifier(DATABASE)}`);
    const { rows } = await client.query<{ server_version: string }>('SHOW server_version');
    return rows[0]?.server_version ?? 'unknown';
  } finally {
    await client.end();
  }
}

export function urlOf(port: number, password: string): string {
  return `postgres://${SUPERUSER}:${password}@${LOOPBACK}:${port}/${DATABASE}`;
}
