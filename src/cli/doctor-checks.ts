import type { Config, TemporalSettings } from '../config/config.ts';
import { temporalConnection } from '../config/temporal-connection.ts';
import { isPerdureError } from '../contracts/errors.ts';
import { graphRef } from '../contracts/ids.ts';
import { missingPostgresLinks } from '../dev/index.ts';
import type { Project } from '../graph/langgraph-json.ts';
import type { LoadedGraph } from '../graph/load-graphs.ts';
import { openDatabase, type Database } from '../postgres/database.ts';
import { listGraphVersions, type ServedGraph } from '../threads/graph-versions.ts';
import { errorDocument } from './exit-status.ts';
import { missingMigrations } from './schema-state.ts';
import { drainedVersions, missingVersions } from './version-checks.ts';

/** What is wrong, and what to do about it. */
export type Problem = { code: string; message: string };

/** A version, served by how many workers, needed by how many threads that are busy or wait; and all its threads. */
export type GraphLine = { name: string } & Omit<ServedGraph, 'graph'>;

/** A version that only the code here knows. */
export function unknownLine({ name, version }: { name: string; version: string }): GraphLine {
  return { name, version, workers: 0, threads: 0, busy: 0, waiting: 0, idle: 0, failed: 0 };
}

const NODE_FLOOR = [20, 20] as const;

export function checkNode(version: string): Problem[] {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  if (major > NODE_FLOOR[0] || (major === NODE_FLOOR[0] && minor >= NODE_FLOOR[1])) return [];
  return [
    {
      code: 'NODE_TOO_OLD',
      message: `Node ${version} is too old: install ${NODE_FLOOR.join('.')} or newer.`,
    },
  ];
}

export function checkPostgresLinks(): Problem[] {
  try {
    const missing = missingPostgresLinks();
    if (missing.length === 0) return [];
    return [
      {
        code: 'POSTGRES_LINKS_MISSING',
        message: `${missing.length} library links of Postgres are missing, since npm skipped an install script. 'perdure up' lays them.`,
      },
    ];
  } catch (error) {
    return [problemOf(error)];
  }
}

/** The graphs that load; a problem for each that doesn't. */
export async function loadGraphs(project: Project, problems: Problem[]): Promise<LoadedGraph[]> {
  const { loadGraph } = await import('../graph/load-graphs.ts');
  const loaded: LoadedGraph[] = [];
  for (const source of project.graphs) {
    try {
      loaded.push(await loadGraph(source));
    } catch (error) {
      problems.push(problemOf(error));
    }
  }
  return loaded;
}

/** The versions that are known there or here; undefined when Postgres does not answer or isn't set up. */
export async function lookAtDatabase(
  databaseUrl: string,
  config: Config,
  loaded: LoadedGraph[],
  problems: Problem[],
  hints: Problem[],
): Promise<GraphLine[] | undefined> {
  let database: Database | undefined;
  try {
    database = openDatabase({ connectionString: databaseUrl, schema: config.schema, max: 2 });
    const missing = await missingMigrations(database);
    if (missing.length > 0) {
      problems.push({
        code: 'SCHEMA_NOT_MIGRATED',
        message: `Schema '${config.schema}' lacks ${missing.join(', ')}. Run 'perdure migrate'; 'perdure up' and 'perdure run' do so too.`,
      });
      return undefined;
    }
    const served = await listGraphVersions(database, config.tenant);
    problems.push(
      ...missingVersions(served, loaded),
      ...(await changedGraphs(database, config.tenant, loaded)),
    );
    hints.push(...drainedVersions(served));
    const known = served.map(({ graph, ...line }): GraphLine => ({ name: graph, ...line }));
    const unknown = loaded.filter(
      (graph) => !known.some(({ name, version }) => name === graph.name && version === graph.version),
    );
    return [...known, ...unknown.map(unknownLine)];
  } catch (error) {
    problems.push(problemOf(error));
    return undefined;
  } finally {
    await database?.close();
  }
}

const REGISTERED = (database: Database) =>
  `SELECT graph, version, fingerprint FROM ${database.table('graph_versions')} WHERE tenant_id = $1`;

async function changedGraphs(database: Database, tenant: string, loaded: LoadedGraph[]): Promise<Problem[]> {
  const { rows } = await database.query<{ graph: string; version: string; fingerprint: string }>(
    REGISTERED(database),
    [tenant],
  );
  return loaded
    .filter((graph) =>
      rows.some(
        (row) =>
          row.graph === graph.name && row.version === graph.version && row.fingerprint !== graph.fingerprint,
      ),
    )
    .map(({ name, version }) => ({
      code: 'GRAPH_CHANGED',
      message: `${graphRef(name, version)} has changed its nodes, edges or channels since it was registered. Give it a new version.`,
    }));
}

/** Temporal, and the namespace in it. */
export async function lookAtTemporal(
  settings: TemporalSettings & { address: string },
  problems: Problem[],
): Promise<void> {
  const [{ Connection }, { temporalError }] = await Promise.all([
    import('@temporalio/client'),
    import('../client/wake.ts'),
  ]);
  try {
    const connection = await Connection.connect({ ...temporalConnection(settings), connectTimeout: 5_000 });
    try {
      await connection.workflowService.describeNamespace({ namespace: settings.namespace });
    } finally {
      await connection.close();
    }
  } catch (error) {
    problems.push(problemOf(isPerdureError(error) ? error : temporalError(error)));
  }
}

function problemOf(error: unknown): Problem {
  const { code, message } = errorDocument(error).error;
  return { code, message };
}
