import { GraphChangedError, UnknownGraphError } from '../contracts/errors.ts';
import { graphRef } from '../contracts/ids.ts';
import type { Database } from '../postgres/database.ts';
import { registerGraphVersion } from '../threads/graph-versions.ts';
import { shapeAsJson } from './fingerprint.ts';
import { coverTools } from './tool-nodes.ts';
import type { LoadedGraph } from './load-graphs.ts';

/** The graphs of one process, by name and version. */
export class GraphRegistry {
  readonly #graphs = new Map<string, LoadedGraph>();

  /** @throws GraphChangedError when two graphs of different shape share a name and version. */
  add(graph: LoadedGraph): void {
    const ref = graphRef(graph.name, graph.version);
    const known = this.#graphs.get(ref);
    if (known && known.fingerprint !== graph.fingerprint)
      throw new GraphChangedError(
        `Two different graphs call themselves ${ref}. Give one of them another version.`,
        { graph: ref },
      );
    coverTools(graph.graph);
    this.#graphs.set(ref, graph);
  }

  all(): LoadedGraph[] {
    return [...this.#graphs.values()];
  }

  /** @throws UnknownGraphError */
  get(name: string, version: string): LoadedGraph {
    const graph = this.#graphs.get(graphRef(name, version));
    if (!graph)
      throw new UnknownGraphError(
        `This worker does not serve ${graphRef(name, version)}; it serves ${[...this.#graphs.keys()].join(', ') || 'no graph'}.`,
        {
          graph: name,
          version,
        },
      );
    return graph;
  }

  /**
   * Records every graph's version in Postgres.
   * @throws GraphChangedError when a graph changed its shape under a version that is recorded already.
   */
  async register(database: Database, tenant: string): Promise<void> {
    for (const graph of this.#graphs.values())
      await registerGraphVersion(database, tenant, {
        graph: graph.name,
        version: graph.version,
        fingerprint: graph.fingerprint,
        shape: shapeAsJson(graph.shape),
        output_channels: graph.graph.outputChannels as string | string[],
      });
  }
}
