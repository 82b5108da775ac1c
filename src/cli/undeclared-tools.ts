import type { LoadedGraph } from '../graph/load-graphs.ts';
import { undeclaredTools } from '../graph/tool-nodes.ts';

/** What could be better, though all is well. */
export type Hint = { code: string; graph: string; tools: string[]; message: string };

/** One for each graph with tools that nobody has declared, with the line for langgraph.json. */
export function undeclaredHints(loaded: readonly LoadedGraph[]): Hint[] {
  return loaded.flatMap((graph) => {
    const tools = undeclaredTools(graph);
    if (tools.length === 0) return [];
    const lines = JSON.stringify({
      perdure: {
        graphs: {
          [graph.name]: { tools: Object.fromEntries(tools.map((name) => [name, { kind: 'pure' }])) },
        },
      },
    });
    return [
      {
        code: 'TOOL_UNDECLARED',
        graph: graph.name,
        tools,
        message:
          `${graph.name}: nobody has declared ${tools.join(', ')}, so a person is asked when it is not known whether a call took effect. ` +
          `In langgraph.json, with 'pure' (no effect) or 'idempotent' (takes the id as its key) where that is true: ${lines}`,
      },
    ];
  });
}
