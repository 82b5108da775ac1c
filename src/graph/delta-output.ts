import type { BoundSaver } from '../checkpoint/saver.ts';
import { partsOf, type CompiledGraph } from './define-graph.ts';

/**
 * Keeps the output of a run that has just succeeded, where some of it lies in a DeltaChannel: no reader of the
 * checkpoint alone could put that together. Does nothing for every other graph.
 */
export async function keepDeltaOutput(
  graph: CompiledGraph,
  saver: BoundSaver,
  checkpointThreadId: string,
): Promise<void> {
  const { channels } = partsOf(graph);
  const names = [graph.outputChannels as string | string[]].flat();
  if (!names.some((name) => channels[name]?.lc_graph_name === 'DeltaChannel')) return;
  const own: CompiledGraph = graph.withConfig({});
  own.checkpointer = saver;
  const state = await own.getState({ configurable: { thread_id: checkpointThreadId } });
  const wanted = Object.entries(state.values as Record<string, unknown>).filter(([name]) =>
    names.includes(name),
  );
  await saver.putOutput(Object.fromEntries(wanted));
}
