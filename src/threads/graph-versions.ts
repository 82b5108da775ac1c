import { GraphChangedError } from '../contracts/errors.ts';
import { graphRef } from '../contracts/ids.ts';
import type { JsonValue } from '../contracts/json.ts';
import type { Database } from '../postgres/database.ts';

export type GraphVersionRecord = {
  graph: string;
  version: string;
  fingerprint: string;
  shape: JsonValue;
  output_channels: string | string[];
};

/**
 * Records a graph's version, once.
 * @throws GraphChangedError when that version is recorded with another fingerprint.
 */
export async function registerGraphVersion(
  database: Database,
  tenant: string,
  record: GraphVersionRecord,
): Promise<void> {
  const { rows } = await database.query<{ fingerprint: string }>(
    `WITH put AS (
       INSERT INTO ${database.table('graph_versions')} (tenant_id, graph, version, fingerprint, shape, output_channels)
       VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING RETURNING fingerprint
     )
     SELECT fingerprint FROM put UNION ALL
     SELECT fingerprint FROM ${database.table('graph_versions')} WHERE tenant_id = $1 AND graph = $2 AND version = $3`,
    [
      tenant,
      record.graph,
      record.version,
      record.fingerprint,
      JSON.stringify(record.shape),
      JSON.stringify(record.output_channels),
    ],
  );
  const known = rows[0]?.fingerprint;
  if (known !== undefined && known !== record.fingerprint)
    throw new GraphChangedError(
      `Graph ${graphRef(record.graph, record.version)} has changed its nodes, edges or channels since it was registered. Give it a new version.`,
      { graph: record.graph, version: record.version, registered: known, now: record.fingerprint },
    );
}

/** A version, the live workers that serve it, and its threads. */
export type ServedGraph = {
  graph: string;
  version: string;
  workers: number;
  /** Threads that need a worker sooner or later: those that are under way or wait for a person. */
  threads: number;
  /** A run is queued or in hand. */
  busy: number;
  /** For a person, or until a time. */
  waiting: number;
  /** The newest run has ended well, or was cancelled. */
  idle: number;
  /** The newest run has failed. */
  failed: number;
};

/** How long after its last sign of life a worker still counts, in ms. It gives one every 5 s. */
export const WORKER_ALIVE_MS = 15_000;

/** Every known version, the oldest of each graph first. */
export async function listGraphVersions(database: Database, tenant: string): Promise<ServedGraph[]> {
  const counted = (status: string) => `coalesce((SELECT t.count FROM t
         WHERE t.graph = g.graph AND t.version = g.version AND t.status = '${status}'), 0)`;
  const { rows } = await database.query<Omit<ServedGraph, 'threads'>>(
    `WITH t AS (
       SELECT graph, version, status, count(*)::int FROM ${database.table('threads')}
       WHERE tenant_id = $1 AND deleted_at IS NULL GROUP BY graph, version, status
     )
     SELECT g.graph, g.version,
       (SELECT count(*)::int FROM ${database.table('workers')} w WHERE w.tenant_id = g.tenant_id AND w.graph = g.graph
          AND w.version = g.version AND w.seen_at > now() - $2 * interval '1 millisecond') AS workers,
       ${counted('busy')} AS busy, ${counted('interrupted')} AS waiting, ${counted('idle')} AS idle,
       ${counted('error')} AS failed
     FROM ${database.table('graph_versions')} g WHERE g.tenant_id = $1 ORDER BY g.graph, g.registered_at, g.version`,
    [tenant, WORKER_ALIVE_MS],
  );
  return rows.map((row) => ({ ...row, threads: row.busy + row.waiting }));
}
