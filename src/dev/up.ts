import { homedir } from 'node:os';
import { isAbsolute, join } from 'node:path';
import { InvalidInputError } from '../contracts/errors.ts';
import { reasonOf, ServerStartError } from './errors.ts';
import { withHomeLock } from './home-lock.ts';
import { isRoot } from './os-user.ts';
import { LOOPBACK } from './ports.ts';
import { sharedPlace } from './postgres-place.ts';
import { startPostgres, type RunningPostgres, type StartContext } from './postgres-server.ts';
import { makeHome, readServersFile } from './servers-file.ts';
import { stopPostgres, stopTemporal } from './stop-servers.ts';
import { findTemporalCli } from './temporal-cli.ts';
import { startTemporal, type RunningTemporal } from './temporal-server.ts';

/** What `up` is to start, and with what. It reads no environment variable but PATH. */
export interface UpOptions {
  /** Absolute path of the `.perdure` folder. */
  home: string;
  /** Told what is going on, one line at a time. */
  onProgress?: (line: string) => void;
  /** A Postgres of the user's own: none is started. */
  databaseUrl?: string | undefined;
  /** A Temporal of the user's own, as `host:port`: none is started. */
  temporalAddress?: string | undefined;
  /** Default: `default`. */
  temporalNamespace?: string | undefined;
  /** Path of a Temporal CLI to prefer. */
  temporalCli?: string | undefined;
  /** Where the Temporal CLI is kept across homes. Default: `~/.cache/perdure`. */
  cacheDir?: string | undefined;
  /** Folders to look for `temporal` and `go` in, as PATH has them. Default: none. */
  searchPath?: string | undefined;
}

/** Where one server runs. `external` means that perdure did not start it and won't stop it. */
export interface RunningServer {
  started: 'now' | 'already' | 'external';
  pid?: number;
  port?: number;
  version?: string;
}

/** Where everything runs. */
export interface RunningServers {
  home: string;
  databaseUrl: string;
  temporalAddress: string;
  temporalNamespace: string;
  temporalUiUrl?: string;
  postgres: RunningServer;
  temporal: RunningServer & { uiPort?: number };
}

/**
 * Starts Postgres and Temporal for this home, or finds them running, and returns once both answer. They are
 * detached: they go on when this process ends, until `down`. Of two calls at the same moment the second waits and
 * reports what the first started. When one server can't be started, one that this call started is stopped again.
 * Time limits: 120 s until a new Postgres answers (it may have a crash to recover from), 90 s for a new Temporal, 20 s
 * for a server that runs already, 20 minutes for another process that holds the home's lock.
 * @throws ServerStartError, TemporalNotFoundError, HomeLockedError, HomeUnusableError
 */
export async function up(options: UpOptions): Promise<RunningServers> {
  const { databaseUrl, temporalAddress, temporalNamespace = 'default' } = options;
  const onProgress = options.onProgress ?? (() => undefined);
  if (!isAbsolute(options.home)) {
    throw new InvalidInputError(`home must be an absolute path, not '${options.home}'`, {
      home: options.home,
    });
  }
  if (databaseUrl !== undefined && temporalAddress !== undefined) {
    return report(options, { postgres: undefined, temporal: undefined });
  }
  if (process.platform === 'win32') {
    throw new ServerStartError(
      'perdure starts its own servers on Linux and macOS only. Use WSL, or set DATABASE_URL and TEMPORAL_ADDRESS.',
    );
  }
  const home = makeHome(options.home);
  const cacheDir = options.cacheDir ?? join(homedir(), '.cache', 'perdure');
  const copyPlace = () => (isRoot() ? sharedPlace() : cacheDir);
  const findCli = () =>
    findTemporalCli({
      temporalCli: options.temporalCli,
      cacheDir,
      searchPath: options.searchPath ?? '',
      onProgress,
    });
  return await withHomeLock(home, onProgress, async () => {
    const context: StartContext = { home, file: readServersFile(home, onProgress), onProgress };
    const [postgres, temporal] = await Promise.allSettled([
      databaseUrl === undefined ? startPostgres(context, copyPlace) : undefined,
      temporalAddress === undefined ? startTemporal(context, temporalNamespace, findCli) : undefined,
    ]);
    if (postgres.status === 'fulfilled' && temporal.status === 'fulfilled') {
      return report(options, { postgres: postgres.value, temporal: temporal.value });
    }
    await stopIfStartedNow(postgres, () => stopPostgres(context.file));
    await stopIfStartedNow(temporal, () => stopTemporal(context.file));
    throw joined(reasonsOf([postgres, temporal]));
  });
}

async function stopIfStartedNow(
  server: PromiseSettledResult<RunningPostgres | RunningTemporal | undefined>,
  stop: () => Promise<unknown>,
): Promise<void> {
  if (server.status === 'fulfilled' && server.value?.started === 'now') await stop();
}

function reasonsOf(results: readonly PromiseSettledResult<unknown>[]): unknown[] {
  return results.filter((result) => result.status === 'rejected').map((result): unknown => result.reason);
}

function joined(reasons: unknown[]): unknown {
  if (reasons.length < 2) return reasons[0];
  return new ServerStartError(reasons.map(reasonOf).join('\n'), {}, { cause: new AggregateError(reasons) });
}

function report(
  options: UpOptions,
  started: { postgres: RunningPostgres | undefined; temporal: RunningTemporal | undefined },
): RunningServers {
  const { postgres, temporal } = started;
  return {
    home: options.home,
    databaseUrl: postgres?.databaseUrl ?? options.databaseUrl ?? '',
    temporalAddress: temporal?.address ?? options.temporalAddress ?? '',
    temporalNamespace: options.temporalNamespace ?? 'default',
    ...(temporal === undefined ? {} : { temporalUiUrl: `http://${LOOPBACK}:${temporal.uiPort}` }),
    postgres: postgres === undefined ? { started: 'external' } : pick(postgres),
    temporal:
      temporal === undefined ? { started: 'external' } : { ...pick(temporal), uiPort: temporal.uiPort },
  };
}

function pick({ started, pid, port, version }: RunningPostgres | RunningTemporal): RunningServer {
  return { started, pid, port, version };
}
