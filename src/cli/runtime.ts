import type { PerdureClient } from '../client/client.ts';
import { connect } from '../client/connect.ts';
import { ensureWorker, workersServing, type EnsuredWorker, type WorkerNeed } from './local-workers.ts';
import type { Progress } from './output.ts';
import { startServers, type Servers, type Settings } from './project-context.ts';
import { migrateIfNeeded } from './schema-state.ts';
import type { Session } from './session.ts';

/** Running servers, a schema that is up to date, and a client. */
export type Runtime = {
  settings: Settings;
  servers: Servers;
  client: PerdureClient;
  need: WorkerNeed | undefined;
};

/** Starts what the command needs, hands it to `work`, and closes the connections after it. */
export async function withRuntime<T>(
  session: Session,
  settings: Settings,
  progress: Progress,
  work: (runtime: Runtime) => Promise<T>,
  ignoredFiles: readonly string[] = [],
): Promise<T> {
  const { config, project, env } = settings;
  const servers = await startServers(config, progress);
  const client = await connect({
    databaseUrl: servers.databaseUrl,
    temporal: servers.temporal,
    schema: config.schema,
    tenant: config.tenant,
  });
  try {
    await migrateIfNeeded(client.database, progress);
    const need = project && {
      project,
      config,
      servers,
      env,
      cwd: session.cwd,
      ignoredFiles,
      database: client.database,
      onProgress: progress,
    };
    return await work({ settings, servers, client, need });
  } finally {
    await client.close();
  }
}

/** Who serves a version: a worker of ours, one elsewhere, or nobody. */
export type Serving = EnsuredWorker | { started: 'nobody' };

/** Starts a worker of this project where it can serve the version, and says who does. */
export async function servedBy(
  runtime: Runtime,
  wanted: { graph: string; version: string },
): Promise<Serving> {
  const { need } = runtime;
  if (need?.project.graphs.some(({ name }) => name === wanted.graph) === true) {
    const ensured = await ensureWorker(need, wanted);
    if (ensured.started === 'elsewhere' || serves(ensured.worker.serves, wanted)) return ensured;
  }
  return servedElsewhere(runtime, wanted);
}

/** Whether a worker that is none of this project's serves the version. */
export async function servedElsewhere(
  { client }: Runtime,
  wanted: { graph: string; version: string },
): Promise<Serving> {
  return {
    started: (await workersServing(client.database, client.tenant, wanted)) > 0 ? 'elsewhere' : 'nobody',
  };
}

function serves(
  served: { graph: string; version: string }[],
  wanted: { graph: string; version: string },
): boolean {
  return served.some(({ graph, version }) => graph === wanted.graph && version === wanted.version);
}
