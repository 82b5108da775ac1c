import type { PerdureSaver } from '../checkpoint/saver.ts';
import type { JsonValue } from '../contracts/json.ts';
import { jsonView } from '../graph/json-view.ts';

/** The output of a run that ended at a checkpoint: the channel, or channels, that its graph was registered with.
 * Undefined where the checkpoint is gone. */
export async function outputAt(
  saver: PerdureSaver,
  checkpointThreadId: string,
  checkpointId: string,
  outputChannels: JsonValue,
): Promise<JsonValue | undefined> {
  const config = { thread_id: checkpointThreadId, checkpoint_ns: '', checkpoint_id: checkpointId };
  const values = await saver.getOutput({ configurable: config });
  if (values === undefined) return undefined;
  if (typeof outputChannels === 'string') return jsonView(values[outputChannels]);
  const names = Array.isArray(outputChannels) ? outputChannels.map(String) : [];
  return jsonView(
    Object.fromEntries(names.filter((name) => name in values).map((name) => [name, values[name]])),
  );
}
