import type { Pregel } from '@langchain/langgraph/pregel';
import { z } from 'zod';
import { deadlinePolicy, type DeadlinePolicy } from '../contracts/deadlines.ts';
import { GraphLoadError } from '../contracts/errors.ts';
import { graphName, graphVersion } from '../contracts/ids.ts';
import { part } from '../operations/part.ts';
import { migrationSteps, type Migrations, type MigrationStep } from './migration-path.ts';
import { retryPolicy, type RetryPolicy, type RetryPolicyInput } from '../contracts/retry-policy.ts';
import { toolsSettings, type ToolsSettings, type ToolsSettingsInput } from '../contracts/tool-settings.ts';
import { nodePolicies, type NodePolicies, type NodePoliciesInput } from '../contracts/node-policy.ts';

/** A compiled LangGraph graph of any shape: StateGraph, MessageGraph, functional `entrypoint`, prebuilt agent. */
// eslint-disable-next-line @typescript-eslint/no-explicit-any -- the only type that every compiled graph fits
export type CompiledGraph = Pregel<any, any, any, any, any, any, any, any, any, any, any>;

/** What of a compiled graph's insides perdure reads. Public fields, but typed by LangGraph as anything. */
export type GraphParts = {
  nodes: Record<
    string,
    { triggers: string[]; subgraphs?: unknown[]; bound?: unknown; errorHandlerNode?: string | undefined }
  >;
  channels: Record<string, { lc_graph_name?: string }>;
  /** The StateGraph it was compiled from; a functional graph has none. */
  builder?: {
    edges?: Set<[string, string]>;
    waitingEdges?: Set<[string[], string]>;
    branches?: Record<string, Record<string, { ends?: Record<string, string> }>>;
    /** A zod object or a StateSchema; undefined where the state is an Annotation. */
    _schemaRuntimeDefinition?: unknown;
  };
};

export function partsOf(graph: CompiledGraph): GraphParts {
  return graph;
}

export type DefineGraphOptions = {
  /** Letters, digits, `.`, `_`, `-`; at most 100. */
  name: string;
  /** Such as `'17'`. A graph whose nodes, edges or channels change needs a new one. */
  version: string;
  /** The compiled graph. Its own checkpointer, if any, is replaced while perdure runs it. */
  graph: unknown;
  /**
   * How threads of older versions come to this one, such as `{ '17->18': (values) => ({ ...values, currency: 'EUR' }) }`.
   * `perdure threads migrate` follows several, one after the other. Default: none; such threads stay where they are.
   */
  migrations?: Migrations;
  /** How its nodes are tried again when they fail. */
  retry?: RetryPolicyInput | undefined;
  /** What may be done when it is not known whether a tool took effect, by its name, for tools that don't say it themselves. */
  tools?: ToolsSettingsInput | undefined;
  /** How the tasks of single nodes run, by the node's name. docs/execution.md has the defaults. */
  nodes?: NodePoliciesInput;
  /**
   * What happens to questions that nobody answers in time, unless the node (`askPerson`) or the run
   * (`config.deadline`) says otherwise: also those of `humanInTheLoopMiddleware`. Default: they wait for ever.
   */
  deadline?: DeadlinePolicy | undefined;
};

const MARK = Symbol.for('perdure.graph-definition');

export type GraphDefinition = {
  readonly name: string;
  readonly version: string;
  readonly graph: CompiledGraph;
  readonly migrations: readonly MigrationStep[];
  readonly retry?: RetryPolicy | undefined;
  readonly tools?: ToolsSettings | undefined;
  /** Undefined where an older copy of perdure made it. */
  readonly nodes?: NodePolicies;
  readonly deadline?: DeadlinePolicy | undefined;
};

/**
 * Names a graph and its version, so that threads can be bound to it.
 * @throws GraphLoadError when the name, the version, the graph or a migration is not one, or `nodes` names no node of
 *   the graph.
 */
export function defineGraph(options: DefineGraphOptions): GraphDefinition {
  const name = graphName.safeParse(options.name);
  if (!name.success)
    throw new GraphLoadError(`defineGraph: name '${options.name}': ${name.error.issues[0]?.message}`);
  const version = graphVersion.safeParse(options.version);
  if (!version.success)
    throw new GraphLoadError(
      `defineGraph: version '${options.version}' of '${options.name}': ${version.error.issues[0]?.message}`,
    );
  const graph = asCompiledGraph(options.graph);
  if (!graph)
    throw new GraphLoadError(
      `defineGraph: 'graph' of '${options.name}' is not a compiled LangGraph graph. Call .compile() on it.`,
    );
  const migrations = migrationSteps(name.data, options.migrations ?? {});
  const settings = z
    .object({
      retry: retryPolicy.optional(),
      tools: toolsSettings.optional(),
      deadline: deadlinePolicy.optional(),
    })
    .safeParse({ retry: options.retry, tools: options.tools, deadline: options.deadline });
  if (!settings.success) {
    const issue = settings.error.issues[0];
    throw new GraphLoadError(`defineGraph: ${issue?.path.join('.')} of '${options.name}': ${issue?.message}`);
  }
  const nodes = checkPolicies(
    graph,
    options.nodes ?? {},
    (what) => `defineGraph: ${what} of '${options.name}'`,
  );
  return {
    name: name.data,
    version: version.data,
    graph,
    migrations,
    nodes,
    ...settings.data,
    [MARK]: true,
  } as GraphDefinition;
}

/**
 * @param where names the place of a policy, such as `nodes.tools.retry`, for the error.
 * @throws GraphLoadError when a policy is none, or its name is not that of a node.
 */
export function checkPolicies(
  graph: CompiledGraph,
  given: NodePoliciesInput,
  where: (what: string) => string,
): NodePolicies {
  const names = Object.keys(partsOf(graph).nodes).filter((name) => !name.startsWith('__'));
  for (const name of Object.keys(given))
    if (!names.includes(name))
      throw new GraphLoadError(
        `${where(`nodes.${name}`)}: the graph has no such node; it has ${names.join(', ') || 'none'}.`,
        { node: name, nodes: names },
      );
  const parsed = nodePolicies.safeParse(given);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  throw new GraphLoadError(`${where(['nodes', ...(issue?.path ?? [])].join('.'))}: ${issue?.message}`);
}

/** Whether `value` was made by defineGraph(), of this copy of perdure or another. */
export function isGraphDefinition(value: unknown): value is GraphDefinition {
  return typeof value === 'object' && value !== null && MARK in value;
}

/**
 * The compiled graph in what a module may export: a compiled graph, an agent that holds one (`createAgent`), or a
 * builder not yet compiled. Told by shape, since the user's copy of LangGraph need not be ours.
 */
export function asCompiledGraph(value: unknown): CompiledGraph | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  if (isCompiled(value)) return value;
  if ('graph' in value && isCompiled(value.graph)) {
    if (hasDurableTools(value)) declaring.add(value.graph);
    return value.graph;
  }
  if (isBuilder(value)) {
    const compiled = value.compile();
    return isCompiled(compiled) ? compiled : undefined;
  }
  return undefined;
}

const declaring = new WeakSet<CompiledGraph>();

/** Whether the graph is that of an agent with the middleware `durableTools()`, which declares what its tools are. */
export function declaresTools(graph: CompiledGraph): boolean {
  return declaring.has(graph);
}

function hasDurableTools(agent: object): boolean {
  const middleware = part(agent, 'options.middleware');
  return Array.isArray(middleware) && middleware.some((each) => part(each, 'name') === 'perdure');
}

function isBuilder(value: object): value is { compile(): unknown } {
  return 'compile' in value && typeof value.compile === 'function';
}

function isCompiled(value: unknown): value is CompiledGraph {
  return (
    typeof value === 'object' &&
    value !== null &&
    'lg_is_pregel' in value &&
    value.lg_is_pregel === true &&
    'nodes' in value &&
    'channels' in value
  );
}
