import { createHash } from 'node:crypto';
import type { JsonValue } from '../contracts/json.ts';
import { partsOf, type CompiledGraph, type GraphParts } from './define-graph.ts';

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
  const parts = partsOf(graph);
  const nodes = Object.entries(parts.nodes)
    .sort(byKey)
    .map(([name, node]) => {
      const inner =
        depth < MAX_DEPTH ? [...(node.subgraphs ?? []), node.bound].find(isCompiledGraph) : undefined;
      const subgraph = inner ? { subgraph: graphShape(inner, depth + 1) } : {};
      return [name, { triggers: node.triggers.toSorted(byText), ...subgraph }] as const;
    });
  const channels = Object.entries(parts.channels)
    .sort(byKey)
    .map(([name, channel]) => [name, channel.lc_graph_name ?? 'unknown'] as const);
  return { nodes: Object.fromEntries(nodes), edges: edgesOf(parts), channels: Object.fromEntries(channels) };
}

/** Static and conditional edges of a StateGraph; a functional graph has none beyond its triggers. */
function edgesOf({ builder }: GraphParts): string[] {
  const edges: string[] = [];
  for (const [from, to] of builder?.edges ?? []) edges.push(`${from} -> ${to}`);
  for (const [from, to] of builder?.waitingEdges ?? [])
    edges.push(`${from.toSorted(byText).join(' & ')} -> ${to}`);
  for (const [from, branches] of Object.entries(builder?.branches ?? {}))
    for (const [name, branch] of Object.entries(branches)) {
      const ends = Object.values(branch.ends ?? { any: '*' }).toSorted(byText);
      edges.push(`${from} -?${name}-> ${ends.join(' | ')}`);
    }
  return edges.sort(byText);
}

function isCompiledGraph(value: unknown): value is CompiledGraph {
  return (
    typeof value === 'object' && value !== null && 'lg_is_pregel' in value && value.lg_is_pregel === true
  );
}

function byKey(a: [string, unknown], b: [string, unknown]): number {
  return byText(a[0], b[0]);
}

/** By UTF-16 units, the same on every machine. */
function byText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** Sixteen hex digits of SHA-256 over the shape. */
export function fingerprint(shape: GraphShape): string {
  return createHash('sha256').update(JSON.stringify(shape)).digest('hex').slice(0, 16);
}

export function shapeAsJson(shape: GraphShape): JsonValue {
  return structuredClone(shape);
}
