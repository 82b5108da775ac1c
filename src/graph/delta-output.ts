import type { BoundSaver } from '../checkpoint/saver.ts';
import { partsOf, type CompiledGraph } from './define-graph.ts';

/**
 * The output of a run whose graph keeps some of it in a DeltaChannel: no reader of the checkpoint alone could put that
 * together, so it is kept with the run's last checkpoint. Does nothing for every other graph.
 */
export class DeltaOutput {
  readonly #graph: CompiledGraph;
  readonly #names: readonly string[];
  readonly #needed: boolean;
  #latest: Record<string, unknown> | undefined;

  constructor(graph: CompiledGraph) {
    const { channels } = partsOf(graph);
    this.#graph = graph;
    this.#names = [graph.outputChannels as string | string[]].flat();
    this.#needed = this.#names.some((name) => channels[name]?.lc_graph_name === 'DeltaChannel');
  }

  /** What to stream: the values as well, which spares reading them at the end. */
  get streamMode(): 'updates' | ['updates', 'values'] {
    return this.#needed ? ['updates', 'values'] : 'updates';
  }

  /** @returns the update in a chunk of the stream; undefined when it holds values. */
  update(chunk: unknown): unknown {
    if (!this.#needed) return chunk;
    const [mode, content] = chunk as ['updates' | 'values', unknown];
    if (mode === 'updates') return content;
    const single = typeof this.#graph.outputChannels === 'string' ? this.#names[0] : undefined;
    this.#latest = single === undefined ? (content as Record<string, unknown>) : { [single]: content };
    return undefined;
  }

  /** After the run has succeeded. An attempt that only has to record the end streams nothing, and reads. */
  async keep(saver: BoundSaver, checkpointThreadId: string): Promise<void> {
    if (!this.#needed) return;
    const values = this.#latest ?? (await this.#read(saver, checkpointThreadId));
    const wanted = Object.entries(values).filter(([name]) => this.#names.includes(name));
    await saver.putOutput(Object.fromEntries(wanted));
  }

  async #read(saver: BoundSaver, checkpointThreadId: string): Promise<Record<string, unknown>> {
    const own: CompiledGraph = this.#graph.withConfig({});
    own.checkpointer = saver;
    const state = await own.getState({ configurable: { thread_id: checkpointThreadId } });
    return state.values as Record<string, unknown>;
  }
}
