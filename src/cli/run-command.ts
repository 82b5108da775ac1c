import { resolve } from 'node:path';
import { isPerdureError, PerdureError, UnknownGraphError } from '../contracts/errors.ts';
import { graphRef } from '../contracts/ids.ts';
import type { JsonValue } from '../contracts/json.ts';
import { runRequest, type RunRequest, type ThreadView } from '../contracts/runs.ts';
import type { LoadedGraph } from '../graph/load-graphs.ts';
import { UsageError } from './exit-status.ts';
import { checkInput, graphSource } from './input-check.ts';
import { readJsonOption } from './json-text.ts';
import type { Settings } from './project-context.ts';
import type { Runtime, Serving } from './runtime.ts';
import type { Session } from './session.ts';
import { asPending, showRun } from './show-run.ts';

export type RunOptions = {
  input: string;
  thread?: string;
  version?: string;
  config?: string;
  strategy?: string;
  detach?: boolean;
  /** False with --no-worker. */
  worker: boolean;
};

/** Asks for a run and, unless detached, waits for its end. @returns the exit status. */
export async function runGraph(session: Session, graph: string, options: RunOptions): Promise<number> {
  const request = await readRequest(session, graph, options);
  const settings = await session.settings();
  const progress = await session.output.progress();
  const loaded = await loadGraphOf(settings, graph, options.version);
  // Refused before servers are started, where the version is told or plain; else as soon as the thread's is known.
  if (loaded && request.thread_id === undefined && (request.version ?? loaded.version) === loaded.version)
    await checkInput(loaded, request.input);
  // Late, since they bring the clients of both servers along: a slip is told without them.
  const [{ withRuntime }, { stopOnInterrupt, waitAndShow }] = await Promise.all([
    import('./runtime.ts'),
    import('./wait-for-run.ts'),
  ]);
  const read = [options.input, options.config ?? ''].map((file) => resolve(session.cwd, file));
  return withRuntime(
    session,
    settings,
    progress,
    async (runtime) => {
      const thread = await threadOf(runtime, request.thread_id);
      const version = request.version ?? (thread ? thread.version : loaded?.version);
      if (loaded && loaded.version === version) await checkInput(loaded, request.input);
      // A thread of another graph is refused when the run is to be recorded: nothing has to be prepared for it.
      const refused = thread !== undefined && thread.graph !== graph;
      const serving: Serving = refused
        ? { started: 'nobody' }
        : await prepare(runtime, graph, version, loaded, options);
      const stopped = stopOnInterrupt();
      const run = await runtime.client.startRun({
        ...request,
        ...(version === undefined ? {} : { version }),
        actor: settings.config.actor,
      });
      if (options.detach === true) return showRun(session, asPending(run));
      return waitAndShow(session, runtime, run, serving, progress, stopped);
    },
    read,
  );
}

/** @throws UsageError when the command line does not make a request. */
async function readRequest(
  session: Session,
  graph: string,
  options: RunOptions,
): Promise<RunRequest & { input: JsonValue }> {
  const input = await readJsonOption('--input', options.input, session.cwd);
  const request = {
    graph,
    input,
    ...(options.version === undefined ? {} : { version: options.version }),
    ...(options.thread === undefined ? {} : { thread_id: options.thread }),
    ...(options.config === undefined
      ? {}
      : { config: await readJsonOption('--config', options.config, session.cwd) }),
    ...(options.strategy === undefined ? {} : { multitask_strategy: options.strategy }),
  };
  const parsed = runRequest.safeParse(request);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  const [field, ...path] = issue?.path ?? [];
  // A name that can't be one is that of an unknown graph.
  if (field === 'graph')
    throw new UnknownGraphError(`No graph is called '${graph}': ${issue?.message}.`, { graph });
  const option = field === 'thread_id' ? 'thread' : String(field);
  throw new UsageError(`--${option}: ${path.length > 0 ? `${path.join('.')}: ` : ''}${issue?.message}`, {
    option: `--${option}`,
  });
}

async function loadGraphOf(
  { project }: Settings,
  graph: string,
  version: string | undefined,
): Promise<LoadedGraph | undefined> {
  if (!project) return undefined;
  const source = graphSource(project, graph, version);
  const { loadGraph } = await import('../graph/load-graphs.ts');
  return loadGraph(source);
}

async function threadOf({ client }: Runtime, threadId: string | undefined): Promise<ThreadView | undefined> {
  if (threadId === undefined) return undefined;
  try {
    return await client.thread(threadId);
  } catch (error) {
    if (isPerdureError(error, 'THREAD_UNKNOWN')) return undefined;
    throw error;
  }
}

/** Sees to it that the version is registered and, unless told otherwise, served. */
async function prepare(
  runtime: Runtime,
  graph: string,
  version: string | undefined,
  loaded: LoadedGraph | undefined,
  options: RunOptions,
): Promise<Serving> {
  if (!options.worker) {
    if (loaded && loaded.version === version) await register(runtime, loaded);
    return { started: 'nobody' };
  }
  // Without a langgraph.json here the newest version that the installation knows is asked for.
  if (version === undefined) return { started: 'elsewhere' };
  const { servedBy, servedElsewhere } = await import('./runtime.ts');
  const wanted = { graph, version };
  const isNamed = runtime.need?.project.graphs.some((one) => one.name === graph && one.version === version);
  const serving =
    loaded === undefined || loaded.version === version || isNamed === true
      ? await servedBy(runtime, wanted)
      : await servedElsewhere(runtime, wanted);
  if (serving.started === 'nobody') await refuseUnserved(runtime, wanted, loaded, options);
  return serving;
}

/** @throws UnknownGraphError | PerdureError VERSION_NOT_SERVED unless the run may wait for a worker. */
async function refuseUnserved(
  { client }: Runtime,
  { graph, version }: { graph: string; version: string },
  loaded: LoadedGraph | undefined,
  { detach }: RunOptions,
): Promise<void> {
  const known = (await client.graphs()).filter((one) => one.graph === graph).map((one) => one.version);
  const here = loaded ? `; langgraph.json gives version ${loaded.version}` : '';
  if (!known.includes(version))
    throw new UnknownGraphError(`Graph '${graph}' has no version '${version}'${here}.`, { graph, known });
  if (detach === true) return;
  throw new PerdureError(
    'VERSION_NOT_SERVED',
    `No worker serves ${graphRef(graph, version)}${here}. Nothing was recorded. Start a worker with that version, or leave the run waiting for one with --detach.`,
    { graph, version },
  );
}

async function register({ client }: Runtime, loaded: LoadedGraph): Promise<void> {
  const { GraphRegistry } = await import('../graph/registry.ts');
  const registry = new GraphRegistry();
  registry.add(loaded);
  await registry.register(client.database, client.tenant);
}
