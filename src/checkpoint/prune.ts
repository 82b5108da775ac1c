import type pg from 'pg';
import type { KeptReason, PrunedRows } from '../contracts/pruning.ts';
import type { Database } from '../postgres/database.ts';
import { planPruning, type Keep, type PlannedCheckpoint, type PlaceOfCheckpoint } from './prune-plan.ts';
import { escapeText } from './jsonb-text.ts';
import { needText, tablesOf } from './statements.ts';

export type PrunedCheckpoints = PrunedRows & {
  /** Ids of the root checkpoints that went, the oldest first. */
  roots: string[];
  kept: Partial<Record<KeptReason, number>>;
};

/** A namespace here is as stored: see `escapeText`. */
type Row = {
  ns: string;
  id: string;
  parent: string | null;
  ts: string | null;
  v: string | null;
  root: string | null;
  walks: boolean;
};

/** The form of checkpoints that hold their `Send`s themselves; older ones have them among the parent's writes. */
const SENDS_IN_CHANNEL = 4;

/**
 * Deletes a thread's checkpoints that `keep` doesn't name and nothing kept needs, with their writes, and the blobs and
 * elements that only they referred to. The transaction has locked the thread's row, before this and until it ends.
 */
export async function pruneCheckpoints(
  client: pg.PoolClient,
  database: Database,
  threadId: string,
  keep: Keep,
): Promise<PrunedCheckpoints> {
  const needed = keep.needed.map((place) => ({ ...place, ns: escapeText(place.ns) }));
  const plan = planPruning(await readCheckpoints(client, database, threadId), { ...keep, needed });
  const kept: PrunedCheckpoints['kept'] = {};
  for (const reason of plan.kept.values()) kept[reason] = (kept[reason] ?? 0) + 1;
  const roots = plan.gone.flatMap(({ ns, id }) => (ns === '' ? [id] : [])).sort();
  if (plan.gone.length === 0)
    return { checkpoints: 0, blobs: 0, writes: 0, elements: 0, bytes: 0, roots, kept };
  const { threads, checkpoints } = tablesOf(database);
  // Whoever knows of elements that go has an older fence; see migrations/000005_elements.sql.
  await client.query(`UPDATE ${threads} SET fence = fence + 1 WHERE checkpoint_thread_id = $1`, [threadId]);
  if (plan.adopted.length > 0)
    await client.query(
      `UPDATE ${checkpoints} c SET parent_checkpoint_id = x.parent
       FROM unnest($2::text[], $3::text[], $4::text[]) AS x(ns, id, parent)
       WHERE c.thread_id = $1 AND c.checkpoint_ns = x.ns AND c.checkpoint_id = x.id`,
      [threadId, ...columns(plan.adopted), plan.adopted.map(({ parent }) => parent)],
    );
  const rows = await deleteRows(client, database, threadId, plan.gone);
  return { ...rows, roots, kept };
}

function columns(places: readonly PlaceOfCheckpoint[]): [string[], string[]] {
  return [places.map(({ ns }) => ns), places.map(({ id }) => id)];
}

/**
 * A DeltaChannel is known by the counters in the metadata of any checkpoint of its namespace. Where it has no stored
 * value, LangGraph puts it together from the writes of the ancestors; not where it has no version either, on threads
 * that stamp each write with one.
 */
async function readCheckpoints(
  client: pg.PoolClient,
  database: Database,
  threadId: string,
): Promise<PlannedCheckpoint[]> {
  const { checkpoints, blobs } = tablesOf(database);
  const { rows } = await client.query<Row>(
    `WITH delta AS MATERIALIZED (
       SELECT DISTINCT c.checkpoint_ns, k.channel
       FROM ${checkpoints} c CROSS JOIN LATERAL jsonb_object_keys(
         CASE jsonb_typeof(c.metadata -> 'counters_since_delta_snapshot')
           WHEN 'object' THEN c.metadata -> 'counters_since_delta_snapshot' ELSE '{}' END) AS k(channel)
       WHERE c.thread_id = $1)
     SELECT c.checkpoint_ns AS ns, c.checkpoint_id AS id, c.parent_checkpoint_id AS parent, c.checkpoint ->> 'ts' AS ts,
       c.checkpoint ->> 'v' AS v, c.metadata -> 'parents' ->> '' AS root,
       EXISTS (SELECT 1 FROM delta d
         WHERE d.checkpoint_ns = c.checkpoint_ns
           AND (c.checkpoint -> 'channel_versions' ? d.channel
             OR c.metadata -> 'delta_writes_versioned' IS DISTINCT FROM 'true'::jsonb)
           AND coalesce((SELECT b.type FROM ${blobs} b WHERE b.thread_id = $1 AND b.checkpoint_ns = c.checkpoint_ns
             AND b.channel = d.channel AND b.version = c.checkpoint -> 'channel_versions' ->> d.channel LIMIT 1),
             'empty') = 'empty') AS walks
     FROM ${checkpoints} c WHERE c.thread_id = $1`,
    [threadId],
  );
  return rows.map(({ ts, v, walks, ...row }) => ({
    ...row,
    madeAt: Date.parse(ts ?? ''),
    needsParent: walks || !(Number(v) >= SENDS_IN_CHANNEL),
  }));
}

async function deleteRows(
  client: pg.PoolClient,
  database: Database,
  threadId: string,
  gone: readonly PlaceOfCheckpoint[],
): Promise<PrunedRows> {
  const tables = tablesOf(database);
  const { checkpoints, blobs, writes, elements } = tables;
  let bytes = 0;
  const remove = async (text: string, values: unknown[]): Promise<number> => {
    const { rows } = await client.query<{ rows: number; bytes: string }>(
      `${text} SELECT count(*)::int AS rows, coalesce(sum(bytes), 0) AS bytes FROM gone`,
      values,
    );
    bytes += Number(rows[0]?.bytes);
    return rows[0]?.rows ?? 0;
  };
  const places = [threadId, ...columns(gone)];
  const which = 'unnest($2::text[], $3::text[]) AS x(ns, id)';
  const at = (row: string) =>
    `${row}.thread_id = $1 AND ${row}.checkpoint_ns = x.ns AND ${row}.checkpoint_id = x.id`;
  const removed = {
    checkpoints: await remove(
      `WITH gone AS (DELETE FROM ${checkpoints} c USING ${which} WHERE ${at('c')}
         RETURNING pg_column_size(c.checkpoint) + pg_column_size(c.metadata) AS bytes)`,
      places,
    ),
    writes: await remove(
      `WITH gone AS (DELETE FROM ${writes} w USING ${which} WHERE ${at('w')}
         RETURNING pg_column_size(w.blob) AS bytes)`,
      places,
    ),
    blobs: await remove(
      `WITH live AS MATERIALIZED (
         SELECT DISTINCT c.checkpoint_ns AS ns, v.key, v.value
         FROM ${checkpoints} c, jsonb_each_text(c.checkpoint -> 'channel_versions') v WHERE c.thread_id = $1),
       gone AS (DELETE FROM ${blobs} b WHERE b.thread_id = $1 AND NOT EXISTS (
           SELECT 1 FROM live WHERE live.ns = b.checkpoint_ns AND live.key = b.channel AND live.value = b.version)
         RETURNING coalesce(pg_column_size(b.blob), 0) AS bytes)`,
      [threadId],
    ),
  };
  const left = (table: string) =>
    `AS MATERIALIZED (SELECT thread_id, type, blob FROM ${table} WHERE thread_id = $1)`;
  const goneElements = await remove(
    `WITH RECURSIVE b ${left(blobs)}, w ${left(writes)}, ${needText(tables, ['b', 'w'], "'{}'")},
     gone AS (DELETE FROM ${elements} e WHERE e.thread_id = $1
         AND NOT EXISTS (SELECT 1 FROM need n WHERE n.hash = e.hash)
       RETURNING pg_column_size(e.blob) AS bytes)`,
    [threadId],
  );
  return { ...removed, elements: goneElements, bytes };
}
