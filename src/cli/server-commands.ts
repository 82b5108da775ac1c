import { dirname } from 'node:path';
import { maskPassword } from '../config/config.ts';
import { isPerdureError } from '../contracts/errors.ts';
import { down, type RunningServer } from '../dev/index.ts';
import { findProject, readProject } from '../graph/langgraph-json.ts';
import { migrate } from '../postgres/migrate.ts';
import { EXIT } from './exit-status.ts';
import { ensureWorkers, stopWorkers, type StartedWorker } from './local-workers.ts';
import { projectFile, settingsIn, startServers } from './project-context.ts';
import { atDatabase } from './looking.ts';
import { migrateIfNeeded } from './schema-state.ts';
import type { Session } from './session.ts';

export type UpOptions = { worker: boolean; workers?: number; showSecrets?: boolean };

/** Starts servers and workers, whatever of them doesn't run. */
export async function startAll(session: Session, options: UpOptions): Promise<number> {
  const { project, config, env } = await session.settings();
  const progress = await session.output.progress();
  const servers = await startServers(config, progress);
  const installation = { databaseUrl: servers.databaseUrl, schema: config.schema };
  const started = await atDatabase(installation, async (database) => {
    const migrations = await migrateIfNeeded(database, progress);
    if (!project || !options.worker) return { migrations, workers: [] };
    const need = { project, config, servers, database, env, cwd: session.cwd, onProgress: progress };
    return { migrations, workers: await ensureWorkers(need, options.workers) };
  });
  const { running } = servers;
  const document = {
    home: config.home,
    project: project?.file ?? null,
    database_url: options.showSecrets === true ? servers.databaseUrl : maskPassword(servers.databaseUrl),
    schema: config.schema,
    temporal_address: servers.temporal.address,
    temporal_namespace: servers.temporal.namespace,
    temporal_ui_url: running.temporalUiUrl ?? null,
    postgres: running.postgres,
    temporal: running.temporal,
    migrations: started.migrations,
    workers: started.workers.map(({ worker: { pid, serves, log }, ...rest }) => ({
      pid,
      started: rest.started,
      serves,
      log,
    })),
  };
  session.output.result(document, ({ bold }) =>
    [
      `${bold('Postgres')}  ${document.database_url} (${how(running.postgres)})`,
      `${bold('Temporal')}  ${document.temporal_address}, namespace ${document.temporal_namespace} (${how(running.temporal)})`,
      ...(running.temporalUiUrl ? [`          see it work: ${running.temporalUiUrl}`] : []),
      ...(started.workers.length > 0
        ? started.workers.map((one) => `${bold('Worker')}    ${what(one)}`)
        : [
            `${bold('Worker')}    none: ${project ? 'as you wish' : 'there is no langgraph.json here or above'}`,
          ]),
      `${bold('Home')}      ${config.home}`,
      '',
      `Stop it all: ${session.commandLine('down')}`,
    ].join('\n'),
  );
  return EXIT.done;
}

function what({ started, worker }: StartedWorker): string {
  const versions = worker.serves.map(({ graph, version }) => `${graph}@${version}`);
  return `pid ${worker.pid} (${started}) serves ${versions.join(', ')}`;
}

function how(server: RunningServer): string {
  if (server.started === 'external') return 'yours';
  return `pid ${server.pid}, ${server.started === 'now' ? 'started now' : 'ran already'}`;
}

/** Stops workers, then servers. A broken langgraph.json is no obstacle. */
export async function stopAll(session: Session): Promise<number> {
  const place = session.place();
  const file = place.projectOption === undefined ? findProject(place.cwd) : projectFile(place);
  const config = settingsIn(place, file === undefined ? undefined : dirname(file), environmentOf(file));
  const progress = await session.output.progress();
  const workers = await stopWorkers(config.home, progress);
  const { stopped } = await down({ home: config.home, onProgress: progress });
  const all = [...workers.map((pid) => ({ name: 'worker', pid })), ...stopped];
  session.output.result({ home: config.home, stopped: all }, () =>
    all.length === 0
      ? `nothing of ${config.home} was running`
      : `stopped: ${all.map(({ name, pid }) => `${name} (pid ${pid})`).join(', ')}. Data stays in ${config.home}.`,
  );
  return EXIT.done;
}

/** What may say where the home is; nothing when the file is broken, which is not this command's business. */
function environmentOf(file: string | undefined): Record<string, string> {
  try {
    return file === undefined ? {} : readProject(file).env;
  } catch (error) {
    if (isPerdureError(error, 'CONFIG_INVALID')) return {};
    throw error;
  }
}

export async function migrateSchema(session: Session): Promise<number> {
  const { config } = await session.settings();
  const progress = await session.output.progress();
  const { databaseUrl } = await startServers(config, progress);
  const report = await atDatabase({ databaseUrl, schema: config.schema }, migrate);
  session.output.result(report, () =>
    report.applied.length === 0
      ? `schema '${report.schema}' is up to date`
      : `schema '${report.schema}': applied ${report.applied.join(', ')}`,
  );
  return EXIT.done;
}
