import { UnknownThreadError } from '../contracts/errors.ts';
import { checkpointThreadId } from '../contracts/ids.ts';
import type { PerdureSaver } from '../checkpoint/saver.ts';
import type { Database } from '../postgres/database.ts';
import { readThread } from '../threads/views.ts';

/** A checkpoint as it is shown. */
export type HistoryEntry = {
  checkpoint_id: string;
  parent_checkpoint_id: string | null;
  created_at: string;
  /** LangGraph's: `input`, `loop`, `update` or `fork`. */
  source: string;
  superstep: number;
  graph_version: string | null;
  state_version: number | null;
  resume_node: string | null;
  pending_tasks: string[];
  run_id: string | null;
};

/** @throws UnknownThreadError */
export async function readHistory(database: Database, saver: PerdureSaver, tenant: string, threadId: string, limit: number): Promise<HistoryEntry[]> {
  const thread = await readThread(database, tenant, threadId);
  if (!thread) throw new UnknownThreadError(threadId);
  const entries: HistoryEntry[] = [];
  const config = { configurable: { thread_id: checkpointThreadId(tenant, threadId), checkpoint_ns: '' } };
  for await (const tuple of saver.list(config, { limit })) {
    const metadata: Record<string, unknown> = { ...tuple.metadata };
    entries.push({
      checkpoint_id: tuple.checkpoint.id,
      parent_checkpoint_id: stringOrNull(tuple.parentConfig?.configurable?.['checkpoint_id']),
      created_at: tuple.checkpoint.ts,
      source: String(metadata['source']),
      superstep: Number(metadata['step']),
      graph_version: stringOrNull(metadata['graph_version']),
      state_version: typeof metadata['state_version'] === 'number' ? metadata['state_version'] : null,
      resume_node: stringOrNull(metadata['resume_node']),
      pending_tasks: Array.isArray(metadata['pending_tasks']) ? metadata['pending_tasks'].map(String) : [],
      run_id: stringOrNull(metadata['run_id']),
    });
  }
  return entries;
}

function stringOrNull(value: unknown): string | null {
  return typeof value === 'string' ? value : null;
}
