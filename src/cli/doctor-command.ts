import { dirname } from 'node:path';
import { maskPassword, type Config } from '../config/config.ts';
import { isPerdureError } from '../contracts/errors.ts';
import type { Project } from '../graph/langgraph-json.ts';
import type { LoadedGraph } from '../graph/load-graphs.ts';
import {
  checkNode,
  checkPostgresLinks,
  loadGraphs,
  lookAtDatabase,
  lookAtTemporal,
  unknownLine,
  type Problem,
} from './doctor-checks.ts';
import { EXIT } from './exit-status.ts';
import { plain } from './output.ts';
import { knownServers } from './project-context.ts';
import type { Session } from './session.ts';
import { table } from './table.ts';

export type DoctorOptions = { showSecrets?: boolean };

/** Looks at everything, starts and changes nothing. @returns 0 when all is well, else 1. */
export async function examine(session: Session, options: DoctorOptions): Promise<number> {
  const problems: Problem[] = [...checkNode(process.versions.node)];
  /** What is worth knowing, and no fault. */
  const hints: Problem[] = [];
  const { project, config } = await readAll(session, problems);
  const loaded: LoadedGraph[] = project ? await loadGraphs(project, problems) : [];
  const servers = config && (await knownServers(config));
  if (config && (config.databaseUrl === undefined || servers?.databaseUrl === undefined))
    problems.push(...checkPostgresLinks());
  if (config && servers) problems.push(...notRunning(config, servers));
  const [graphs] = await Promise.all([
    config && servers?.databaseUrl !== undefined
      ? lookAtDatabase(servers.databaseUrl, config, loaded, problems, hints)
      : undefined,
    servers?.temporal.address === undefined
      ? undefined
      : lookAtTemporal({ ...servers.temporal, address: servers.temporal.address }, problems),
  ]);
  if (loaded.length > 0) hints.push(...(await import('./undeclared-tools.ts')).undeclaredHints(loaded));
  const url = servers?.databaseUrl ?? null;
  const secret = url === null || options.showSecrets === true ? undefined : passwordOf(url);
  const document = {
    ok: problems.length === 0,
    node: process.versions.node,
    project: project?.file ?? null,
    home: config?.home ?? null,
    database_url: url === null || options.showSecrets === true ? url : maskPassword(url),
    schema: config?.schema ?? null,
    temporal_address: servers?.temporal.address ?? null,
    temporal_namespace: config?.temporal.namespace ?? null,
    graphs: graphs ?? loaded.map(unknownLine),
    hints,
    problems: problems.map(({ code, message }) => ({
      code,
      message: secret ? message.replaceAll(secret, '***') : message,
    })),
  };
  session.output.result(document, ({ green, red, bold }) =>
    [
      `${bold('node')}      ${document.node}`,
      `${bold('project')}   ${document.project ?? 'none: there is no langgraph.json here or above'}`,
      `${bold('home')}      ${document.home ?? ''}`,
      `${bold('postgres')}  ${document.database_url ?? 'not running'}`,
      `${bold('temporal')}  ${document.temporal_address ?? 'not running'}`,
      '',
      table(
        ['GRAPH', 'VERSION', 'WORKERS', 'BUSY', 'WAITING', 'FAILED', 'IDLE'],
        document.graphs.map((one) => [
          one.name,
          one.version,
          one.workers,
          one.busy,
          one.waiting,
          one.failed,
          one.idle,
        ]),
        'no graphs',
      ),
      '',
      ...(document.ok
        ? [green('all is well')]
        : document.problems.map(({ message }) => `${red('problem:')} ${plain(message)}`)),
      ...document.hints.map(({ message }) => `${bold('hint:')} ${plain(message)}`),
    ].join('\n'),
  );
  return document.ok ? EXIT.done : EXIT.failed;
}

/** What can be read of the project and the settings; what can't is a problem, not an end. */
async function readAll(
  session: Session,
  problems: Problem[],
): Promise<{ project: Project | undefined; config: Config | undefined }> {
  const { projectFile, settingsIn } = await import('./project-context.ts');
  try {
    return await session.settings();
  } catch (error) {
    if (!isPerdureError(error, 'CONFIG_INVALID')) throw error;
    problems.push({ code: error.code, message: error.message });
  }
  try {
    const file = projectFile(session.place());
    return {
      project: undefined,
      config: settingsIn(session.place(), file === undefined ? undefined : dirname(file)),
    };
  } catch (error) {
    // The same complaint again, when a variable and not the file was at fault.
    if (!isPerdureError(error, 'CONFIG_INVALID')) throw error;
    return { project: undefined, config: undefined };
  }
}

function notRunning(config: Config, servers: Awaited<ReturnType<typeof knownServers>>): Problem[] {
  const down = [
    ...(servers.databaseUrl === undefined ? ['Postgres'] : []),
    ...(servers.temporal.address === undefined ? ['Temporal'] : []),
  ];
  if (down.length === 0) return [];
  return [
    {
      code: 'NOT_RUNNING',
      message: `${down.join(' and ')} of ${config.home} ${down.length > 1 ? 'do' : 'does'} not run. Start with 'perdure up'.`,
    },
  ];
}

function passwordOf(url: string): string | undefined {
  try {
    const { password } = new URL(url);
    return password === '' ? undefined : decodeURIComponent(password);
  } catch (error) {
    if (error instanceof TypeError || error instanceof URIError) return undefined;
    throw error;
  }
}
