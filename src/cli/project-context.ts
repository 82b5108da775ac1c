import { existsSync, realpathSync, statSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { readConfig, type Config, type TemporalSettings } from '../config/config.ts';
import { PerdureError } from '../contracts/errors.ts';
import { serverStatus, up, type RunningServers } from '../dev/index.ts';
import { findProject, readProject, type Project } from '../graph/langgraph-json.ts';
import { UsageError } from './exit-status.ts';

export type Environment = Record<string, string | undefined>;

/** What a command works with: the project it stands in, if any, and the settings. */
export type Settings = {
  project: Project | undefined;
  config: Config;
  /** The environment with langgraph.json's `env` under it. */
  env: Environment;
};

/** Where Postgres and Temporal answer. */
export type Servers = { databaseUrl: string; temporal: TemporalSettings & { address: string } };

/** What of Host the settings come from. */
export type Place = {
  /** The process's own environment: what langgraph.json's `env` sets is put into it. */
  env: Environment;
  cwd: string;
  /** The option --project: a langgraph.json or its folder. */
  projectOption: string | undefined;
};

/**
 * Reads langgraph.json (the one named, or the nearest from here upward) and the settings.
 * @throws ConfigError | UsageError
 */
export function readSettings(place: Place): Settings {
  const file = projectFile(place);
  const project = file === undefined ? undefined : readProject(file);
  for (const [name, value] of Object.entries(project?.env ?? {})) place.env[name] ??= value;
  return { project, config: settingsIn(place, project?.folder, project?.env), env: place.env };
}

/** The settings alone. The home lies beside langgraph.json, so that every folder below finds the same one. */
export function settingsIn(place: Place, folder: string | undefined, projectEnv: Environment = {}): Config {
  const told = readConfig(place.env, place.cwd);
  if (folder === undefined) return told;
  const fromProject = place.env['PERDURE_ARTIFACTS'] === projectEnv['PERDURE_ARTIFACTS'];
  const config = fromProject ? { ...told, artifacts: readConfig(place.env, folder).artifacts } : told;
  const chosen = place.env['PERDURE_HOME'];
  if (chosen === undefined || chosen === '') return { ...config, home: join(folder, '.perdure') };
  return chosen === projectEnv['PERDURE_HOME'] ? { ...config, home: resolve(folder, chosen) } : config;
}

/** @throws UsageError when the option names none. */
export function projectFile({ cwd, projectOption }: Place): string | undefined {
  if (projectOption === undefined) return findProject(cwd);
  const named = resolve(cwd, projectOption);
  const file = existsSync(named) && statSync(named).isDirectory() ? join(named, 'langgraph.json') : named;
  if (!existsSync(file)) throw new UsageError(`--project: there is no ${file}.`, { file });
  // One project, one path, however it was named.
  return join(realpathSync(dirname(file)), basename(file));
}

/** Servers that are told or run; undefined fields for those that aren't. Starts nothing. */
export async function knownServers(
  config: Config,
): Promise<{ databaseUrl: string | undefined; temporal: TemporalSettings }> {
  const { databaseUrl, temporal } = config;
  if (databaseUrl !== undefined && temporal.address !== undefined) return { databaseUrl, temporal };
  const status = await serverStatus({ home: config.home });
  return {
    databaseUrl: databaseUrl ?? status.postgres.databaseUrl,
    temporal: temporal.address === undefined ? embeddedTemporal(config, status.temporal.address) : temporal,
  };
}

/** @throws PerdureError NOT_RUNNING when this home's Postgres is down and no other is told. */
export async function requireDatabaseUrl(config: Config): Promise<string> {
  const { databaseUrl } = await knownServers(config);
  if (databaseUrl !== undefined) return databaseUrl;
  throw new PerdureError(
    'NOT_RUNNING',
    `No Postgres runs in ${config.home}. Start it with 'perdure up', or set DATABASE_URL.`,
    {
      home: config.home,
    },
  );
}

/** Starts this home's servers where none are told. @throws ServerStartError | TemporalNotFoundError | HomeLockedError */
export async function startServers(
  config: Config,
  onProgress: (line: string) => void,
): Promise<Servers & { running: RunningServers }> {
  const running = await up({
    home: config.home,
    onProgress,
    databaseUrl: config.databaseUrl,
    temporalAddress: config.temporal.address,
    temporalNamespace: config.temporal.namespace,
    temporalCli: config.temporalCli,
    cacheDir: config.cache,
    searchPath: config.searchPath,
  });
  const address = running.temporalAddress;
  const temporal =
    config.temporal.address === undefined ? embeddedTemporal(config, address) : config.temporal;
  return { databaseUrl: running.databaseUrl, temporal: { ...temporal, address }, running };
}

/** Keys and certificates are for the Temporal that TEMPORAL_ADDRESS names. */
function embeddedTemporal(config: Config, address: string | undefined): TemporalSettings {
  return { address, namespace: config.temporal.namespace, apiKey: undefined, tls: undefined };
}
