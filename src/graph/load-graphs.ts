import { pathToFileURL } from 'node:url';
import { register as registerRequire } from 'tsx/cjs/api';
import { register } from 'tsx/esm/api';
import { GraphLoadError } from '../contracts/errors.ts';
import {
  asCompiledGraph,
  checkPolicies,
  defineGraph,
  isGraphDefinition,
  type CompiledGraph,
  type GraphDefinition,
} from './define-graph.ts';
import { fingerprint, graphShape, type GraphShape } from './fingerprint.ts';
import type { GraphSource, ModuleExport } from './langgraph-json.ts';
import { migrationSteps } from './migration-path.ts';
import { ActivityNodes } from './node-policies.ts';

/** A graph that can be run, and what it is registered under. */
export type LoadedGraph = GraphDefinition & {
  shape: GraphShape;
  fingerprint: string;
  activityNodes: ActivityNodes;
};

/**
 * Loads a graph's module, TypeScript or JavaScript, and finds the graph in its export: made by defineGraph(), a
 * compiled graph, an agent, a builder, or a function that gives one of these.
 *
 * A graph that names no version gets, in this order: the one in langgraph.json, or its fingerprint's first eight
 * digits, so that a changed shape is a new version by itself and waiting threads keep the old one.
 * @throws GraphLoadError that names the file and the export.
 */
export async function loadGraph(source: GraphSource): Promise<LoadedGraph> {
  const graph = withSettings(await loadDefinition(source), source);
  if (source.migrations === undefined) return graph;
  const more = migrationSteps(source.name, await exportedValue(source.migrations));
  return { ...graph, migrations: [...graph.migrations, ...more] };
}

/** What langgraph.json says comes over what the code says. */
function withSettings(graph: LoadedGraph, { retry, tools }: GraphSource): LoadedGraph {
  return {
    ...graph,
    ...(retry === undefined ? {} : { retry: { ...graph.retry, ...retry } }),
    ...(tools === undefined ? {} : { tools: tools && { ...graph.tools, ...tools } }),
  };
}

async function loadDefinition(source: GraphSource): Promise<LoadedGraph> {
  const value = await exportedValue(source);
  if (isGraphDefinition(value)) {
    if (value.name !== source.name)
      throw new GraphLoadError(
        `langgraph.json calls it '${source.name}', but defineGraph in ${source.file} calls it '${value.name}'. Make them equal.`,
        { file: source.file },
      );
    if (source.version !== undefined && value.version !== source.version)
      throw new GraphLoadError(
        `langgraph.json gives '${source.name}' the version ${source.version}, but defineGraph in ${source.file} says ${value.version}. Make them equal.`,
        { file: source.file },
      );
    return withShape(withPolicies(source, value));
  }
  const graph = asCompiledGraph(
    typeof value === 'function' ? await callFactory(source, value as GraphFactory) : value,
  );
  if (!graph)
    throw new GraphLoadError(
      `${source.file}: export '${source.exportName}' is no LangGraph graph, no agent and no function that gives one.`,
      { file: source.file, export: source.exportName },
    );
  return withVersion(source, graph);
}

type GraphFactory = (config: { configurable: Record<string, never> }) => unknown;

async function callFactory(source: GraphSource, factory: GraphFactory): Promise<unknown> {
  try {
    return await factory({ configurable: {} });
  } catch (error) {
    throw new GraphLoadError(
      `${source.file}: the function '${source.exportName}' failed: ${text(error)}`,
      { file: source.file },
      { cause: error },
    );
  }
}

function withVersion(source: GraphSource, graph: CompiledGraph): LoadedGraph {
  const shape = graphShape(graph);
  const print = fingerprint(shape);
  const definition = defineGraph({ name: source.name, version: source.version ?? print.slice(0, 8), graph });
  return withShape(withPolicies(source, definition), shape);
}

/** The definition with what langgraph.json says of its nodes. */
function withPolicies(source: GraphSource, definition: GraphDefinition): GraphDefinition {
  const where = (what: string) => `langgraph.json: perdure.graphs.${source.name}.${what}`;
  const own = checkPolicies(definition.graph, source.nodes ?? {}, where);
  return { ...definition, nodes: { ...definition.nodes, ...own } };
}

/** Adds to a definition what registration needs. */
export function withShape(definition: GraphDefinition, shape = graphShape(definition.graph)): LoadedGraph {
  const activityNodes = new ActivityNodes(definition.graph, definition.nodes ?? {});
  return { ...definition, shape, fingerprint: fingerprint(shape), activityNodes };
}

async function exportedValue(source: ModuleExport): Promise<unknown> {
  let module: Record<string, unknown>;
  try {
    module = await importModule(source.file);
  } catch (error) {
    throw new GraphLoadError(
      `${source.file} can't be loaded: ${text(error)}`,
      { file: source.file },
      { cause: error },
    );
  }
  // A CommonJS module's exports come as the default export.
  const holder = source.exportName in module ? module : unwrapDefault(module);
  if (source.exportName in holder) return holder[source.exportName];
  const names = Object.keys(holder).filter((name) => name !== '__esModule');
  throw new GraphLoadError(
    `${source.file} exports no '${source.exportName}'; it has ${names.join(', ') || 'no exports'}.`,
    {
      file: source.file,
      exports: names,
    },
  );
}

function unwrapDefault(module: Record<string, unknown>): Record<string, unknown> {
  const value = module['default'];
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : module;
}

let typeScriptRegistered = false;

async function importModule(file: string): Promise<Record<string, unknown>> {
  if (!typeScriptRegistered && !/\.[cm]?js$/.test(file)) {
    // For the whole process and once: a second registration would load a second copy of every module.
    // The first is for folders without "type": "module", whose modules are CommonJS to Node.
    registerRequire();
    register();
    typeScriptRegistered = true;
  }
  return (await import(pathToFileURL(file).href)) as Record<string, unknown>;
}

function text(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
