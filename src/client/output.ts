import type { PerdureSaver } from '../checkpoint/saver.ts';
import type { JsonValue } from '../contracts/json.ts';
import type { RunResult } from '../contracts/runs.ts';
import { jsonView } from '../graph/json-view.ts';
import type { Database } from '../postgres/database.ts';
import { prunedAt } from '../threads/prunings.ts';
import type { RunRow } from '../threads/views.ts';

/** The output of a run that ended in `success`, or when the checkpoint that held it was pruned. */
export async function outputOf(
  database: Database,
  saver: PerdureSaver,
  tenant: string,
  run: RunRow,
): Promise<Pick<RunResult, 'values' | 'output_pruned_at'>> {
  if (run.output !== null) return { values: run.output };
  if (run.checkpoint_id === null) return {};
  const values = await outputAt(saver, run.checkpoint_thread_id, run.checkpoint_id, run.output_channels);
  if (values !== undefined) return { values };
  const pruned = await prunedAt(database, database, tenant, run.thread_id, run.checkpoint_id);
  return pruned === null ? { values: {} } : { output_pruned_at: pruned };
}

/** The channel, or channels, that the graph was registered with. Undefined where the checkpoint is gone. */
async function outputAt(
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
