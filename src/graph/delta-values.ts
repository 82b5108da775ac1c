import { DeltaSnapshot, type CheckpointTuple } from '@langchain/langgraph-checkpoint';
import type { PerdureSaver } from '../checkpoint/saver.ts';
import { partsOf, type CompiledGraph } from './define-graph.ts';
import type { ChannelValues } from './migration-path.ts';

const DELTA = 'DeltaChannel';

/** The values of the graph's DeltaChannels at a checkpoint, which holds only what was added to them. */
export async function deltaValues(
  graph: CompiledGraph,
  saver: PerdureSaver,
  at: CheckpointTuple,
): Promise<ChannelValues> {
  const names = deltaChannels(graph);
  if (names.length === 0) return {};
  const own: CompiledGraph = graph.withConfig({});
  own.checkpointer = saver;
  // Named by its id, so that the pending writes of its tasks are left out.
  const state = await own.getState(at.config);
  const values = Object.entries(state.values as ChannelValues);
  return Object.fromEntries(values.filter(([name, value]) => names.includes(name) && value !== undefined));
}

/** Values as a checkpoint holds them: those of DeltaChannels whole. */
export function storedForm(graph: CompiledGraph, values: ChannelValues): ChannelValues {
  const names = deltaChannels(graph);
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [
      name,
      names.includes(name) ? new DeltaSnapshot(value) : value,
    ]),
  );
}

/** A DeltaChannel that the graph has no longer as one: nothing in it could put its value together. */
export function lostDelta(
  graph: CompiledGraph,
  before: Readonly<Record<string, string>>,
): string | undefined {
  const now = deltaChannels(graph);
  return Object.keys(before).find((name) => before[name] === DELTA && !now.includes(name));
}

function deltaChannels(graph: CompiledGraph): string[] {
  return Object.entries(partsOf(graph).channels)
    .filter(([, channel]) => channel.lc_graph_name === DELTA)
    .map(([name]) => name);
}
