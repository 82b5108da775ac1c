import { fromJsonbText } from '../checkpoint/jsonb-text.ts';
import { checkpointThreadId } from '../contracts/ids.ts';
import type { Database } from '../postgres/database.ts';
import { readThread } from '../threads/views.ts';

/** A checkpoint as it is shown. */
export type HistoryEntry = {
  checkpoint_id: string;
  /** Empty for the whole graph; of a subgraph `node:<task id>`, one level after the other with `|`. */
  checkpoint_ns: string;
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

export type HistoryOptions = {
  /** Checkpoints at most, the newest. Default 50. */
  limit?: number;
  /** Those of subgraphs as well, which count too. Default false. */
  subgraphs?: boolean;
};

/** The thread's checkpoints, newest first, without their values. @throws UnknownThreadError */
export async function readHistory(
  database: Database,
  tenant: string,
  threadId: string,
  { limit = 50, subgraphs = false }: HistoryOptions = {},
): Promise<HistoryEntry[]> {
  await readThread(database, tenant, threadId);
  // A branch that begins inside a subgraph has those that lead there once more, under its own namespace.
  const { rows } = await database.query<{
    checkpoint_id: string;
    ns: string;
    parent: string | null;
    ts: string;
    metadata: string;
  }>(
    `SELECT ${subgraphs ? 'DISTINCT ON (checkpoint_id)' : ''} checkpoint_id, checkpoint_ns AS ns, parent_checkpoint_id AS parent,
       checkpoint ->> 'ts' AS ts, metadata::text AS metadata
     FROM ${database.table('checkpoints')} WHERE thread_id = $1 AND (checkpoint_ns = '' OR $3)
     ORDER BY checkpoint_id DESC${subgraphs ? ", checkpoint_ns <> '', metadata -> 'parents' ->> ''" : ''} LIMIT $2`,
    [checkpointThreadId(tenant, threadId), limit, subgraphs],
  );
  return rows.map((row) => {
    const metadata = fromJsonbText(row.metadata) as Record<string, unknown>;
    return {
      checkpoint_id: row.checkpoint_id,
      checkpoint_ns: row.ns,
      parent_checkpoint_id: row.parent,
      created_at: row.ts,
      source: String(metadata['source']),
      superstep: Number(metadata['step']),
      graph_version: stringOrNull(metadata['graph_version']),
      state_version: typeof metadata['state_version'] === 'number' ? metadata['state_version'] : null,
      resume_node: stringOrNull(metadata['resume_node']),
      pending_tasks: Array.isArray(metadata['pending_tasks']) ? metadata['pending_tasks'].map(String) : [],
      run_id: stringOrNull(metadata['run_id']),
    };
  });
}

function stringOrNull(value: unknown): string | null {
  return typeof value === 'string' ? value : null;
}
