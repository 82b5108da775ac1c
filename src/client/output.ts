import type { BaseCheckpointSaver } from '@langchain/langgraph-checkpoint';
import type { JsonValue } from '../contracts/json.ts';
import { jsonView } from '../graph/json-view.ts';

/** The output of a run that ended at a checkpoint: the channel, or channels, that its graph was registered with. */
export async function outputAt(
  saver: BaseCheckpointSaver,
  checkpointThreadId: string,
  checkpointId: string,
  outputChannels: JsonValue,
): Promise<JsonValue> {
  const tuple = await saver.getTuple({
    configurable: { thread_id: checkpointThreadId, checkpoint_ns: '', checkpoint_id: checkpointId },
  });
  const values: Record<string, unknown> = tuple?.checkpoint.channel_values ?? {};
  if (typeof outputChannels === 'string') return jsonView(values[outputChannels]);
  const names = Array.isArray(outputChannels) ? outputChannels.map(String) : [];
  return jsonView(
    Object.fromEntries(names.filter((name) => name in values).map((name) => [name, values[name]])),
  );
}
