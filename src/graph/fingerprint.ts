import { createHash } from 'node:crypto';
import type { JsonValue } from '../contracts/json.ts';
import type { CompiledGraph } from './define-graph.ts';

/** What of a graph decides whether a waiting thread can go on with it: nodes, edges and channels, subgraphs too. */
export type GraphShape = {
  nodes: { [name: string]: { triggers: string[]; subgraph?: GraphShape } };
  edges: string[];
  channels: { [name: string]: string };
};

/** Deeper nesting than this is a graph that contains itself. */
const MAX_DEPTH = 20;

/** Sorted throughout, so that equal graphs give equal JSON. Bodies of nodes are not in it. */
export function graphShape(graph: CompiledGraph, depth = 0): GraphShape {
  const nodes = Object.entries<{ triggers: string[]; subgraphs?: unknown[]; bound?: unknown }>(graph.nodes)
    .sort(byKey)
    .map(([name, node]) => {
      const inner =
        depth < MAX_DEPTH ? [...(node.subgraphs ?? []), node.bound].find(isCompiledGraph) : undefined;
      return [
        name,
        { triggers: [...node.triggers].sort(), ...(inner ? { subgraph: graphShape(inner, depth + 1) } : {}) },
      ] as const;
    });
  const channels = Object.entries<{ lc_graph_name?: string }>(graph.channels)
    .sort(byKey)
    .map(([name, channel]) => [name, channel.lc_graph_name ?? 'unknown'] as const);
  return { nodes: Object.fromEntries(nodes), edges: edgesOf(graph), channels: Object.fromEntries(channels) };
}

/** Static and conditional edges of a StateGraph; a functional graph has none beyond its triggers. */
function edgesOf(graph: CompiledGraph): string[] {
  const builder: unknown = 'builder' in graph ? graph.builder : undefined;
  if (typeof builder !== 'object' || builder === null) return [];
  const edges: string[] = [];
  if ('edges' in builder && builder.edges instanceof Set)
    for (const [from, to] of builder.edges) edges.push(`${from} -> ${to}`);
  if ('waitingEdges' in builder && builder.waitingEdges instanceof Set)
    for (const [from, to] of builder.waitingEdges) edges.push(`${[...from].sort().join(' & ')} -> ${to}`);
  if ('branches' in builder && typeof builder.branches === 'object' && builder.branches !== null)
    for (const [from, branches] of Object.entries(builder.branches))
      for (const [name, branch] of Object.entries<{ ends?: Record<string, string> }>(branches))
        edges.push(
          `${from} -?${name}-> ${Object.values(branch.ends ?? { any: '*' })
            .sort()
            .join(' | ')}`,
        );
  return edges.sort();
}

function isCompiledGraph(value: unknown): value is CompiledGraph {
  return (
    typeof value === 'object' && value !== null && 'lg_is_pregel' in value && value.lg_is_pregel === true
  );
}

function byKey(a: [string, unknown], b: [string, unknown]): number {
  return a[0] < b[0] ? -1 : 1;
}

/** Sixteen hex digits of SHA-256 over the shape. */
export function fingerprint(shape: GraphShape): string {
  return createHash('sha256').update(JSON.stringify(shape)).digest('hex').slice(0, 16);
}

export function shapeAsJson(shape: GraphShape): JsonValue {
  return structuredClone(shape);
}
