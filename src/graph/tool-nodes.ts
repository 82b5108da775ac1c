import { coverTool, isUndeclared } from '../operations/covered-tool.ts';
import { declaresTools, partsOf, type CompiledGraph } from './define-graph.ts';
import type { LoadedGraph } from './load-graphs.ts';

/** LangGraph's and LangChain's `ToolNode`, told by shape: the user's copy need not be ours. */
type ToolNode = {
  tools: unknown[];
  handleToolErrors: unknown;
  wrapToolCall?: WrapToolCall | undefined;
};
type Request = { tool?: unknown };
type Handler = (request: Request) => unknown;
type WrapToolCall = (request: Request, handler: Handler) => unknown;

const WRAPPED = Symbol.for('perdure.covers-dynamic-tools');

/**
 * Makes operations of the tool calls of agents that know nothing of perdure: of the tools of every ToolNode in the
 * graph and its subgraphs, and of those that a middleware supplies when a call is made. The nodes are changed in place,
 * once: what they get behaves as before outside of a run, so it does not matter who else uses them.
 */
export function coverTools(graph: CompiledGraph): void {
  for (const node of toolNodes(graph)) {
    node.tools = node.tools.map((tool) => coverTool(tool));
    const wrap = node.wrapToolCall;
    if (wrap !== undefined && !(WRAPPED in wrap))
      node.wrapToolCall = Object.assign(
        (request: Request, handler: Handler) =>
          wrap(request, (inner) => handler({ ...inner, tool: coverTool(inner.tool) })),
        { [WRAPPED]: true },
      );
  }
}

/** The names of the tools of which nobody has said what may be done when it is not known whether they took effect. */
export function undeclaredTools({ graph, tools }: LoadedGraph): string[] {
  if (declaresTools(graph)) return [];
  const names = toolNodes(graph).flatMap((node) =>
    node.tools.flatMap((tool) => (isUndeclared(tool, tools) ? [(tool as { name: string }).name] : [])),
  );
  return [...new Set(names)];
}

/** Whether a node's runnable is a ToolNode. */
export function holdsToolNode(bound: unknown): boolean {
  return typeof bound === 'object' && bound !== null && isToolNode(bound);
}

function toolNodes(graph: CompiledGraph): ToolNode[] {
  const found: ToolNode[] = [];
  const seen = new Set<unknown>();
  const visit = (value: unknown): void => {
    if (typeof value !== 'object' || value === null || seen.has(value)) return;
    seen.add(value);
    if (isToolNode(value)) found.push(value);
    else if ('lg_is_pregel' in value && 'nodes' in value) visitGraph(value as CompiledGraph);
    // What `withConfig()`, `pipe()` and the like put around a node.
    if ('bound' in value) visit(value.bound);
    if ('steps' in value && Array.isArray(value.steps)) value.steps.forEach(visit);
  };
  const visitGraph = (inner: CompiledGraph): void => {
    for (const { bound, subgraphs } of Object.values(partsOf(inner).nodes)) {
      visit(bound);
      subgraphs?.forEach(visit);
    }
  };
  visit(graph);
  return found;
}

function isToolNode(value: object): value is ToolNode {
  return 'tools' in value && Array.isArray(value.tools) && 'handleToolErrors' in value;
}
