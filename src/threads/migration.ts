import type pg from 'pg';
import { UnknownThreadError } from '../contracts/errors.ts';
import type { Database } from '../postgres/database.ts';
import { WORKER_ALIVE_MS } from './graph-versions.ts';

/** A thread as a migration finds it. */
export type MigrationCandidate = {
  thread_id: string;
  checkpoint_thread_id: string;
  graph: string;
  version: string;
  fence: string;
  head_checkpoint_id: string | null;
  state_version: number;
  /** Why it can't be moved now; null when it can. */
  busy: string | null;
  /** Its questions that are pending, or whose answer waits its turn, and who asks: a node's path, as `outer|inner`. */
  asked: { interrupt_id: string; node: string }[];
  /** The channels of its version and their kinds; null where that was never registered here. */
  channels: Record<string, string> | null;
  /** Whether this very migration has moved it already. */
  done: { changed: string[]; from: string } | null;
};

/**
 * A run that a live worker has in hand is let be. Of a version that no worker serves, the last checkpoint is where
 * the thread stands, whatever its runs say: a new fence shuts out whoever comes back.
 */
const BUSY = (database: Database) => `CASE
    WHEN EXISTS (SELECT FROM ${database.table('runs')} r WHERE r.tenant_id = t.tenant_id AND r.thread_id = t.thread_id
        AND r.status IN ('pending', 'running') AND r.kind = 'fork')
      THEN 'a fork of it waits or runs; it has to end under its version'
    WHEN t.rewound OR EXISTS (SELECT FROM ${database.table('runs')} r WHERE r.tenant_id = t.tenant_id
        AND r.thread_id = t.thread_id AND r.status IN ('pending', 'running') AND r.rewound)
      THEN 'it was rolled back, and has to move on from there under its version first'
    WHEN EXISTS (SELECT FROM ${database.table('runs')} r WHERE r.tenant_id = t.tenant_id AND r.thread_id = t.thread_id
        AND r.status = 'running' AND r.retry_at IS NULL)
      AND EXISTS (SELECT FROM ${database.table('workers')} w WHERE w.tenant_id = t.tenant_id AND w.graph = t.graph
        AND w.version = t.version AND w.seen_at > now() - ${WORKER_ALIVE_MS} * interval '1 millisecond')
      THEN 'a worker has a run of it in hand; try again once that has ended or asks'
  END`;

/** @throws UnknownThreadError also for a deleted one */
export async function migrationCandidate(
  database: Database,
  tenant: string,
  threadId: string,
  migrationId: string,
): Promise<MigrationCandidate> {
  const { rows } = await database.query<MigrationCandidate>(
    `SELECT t.thread_id, t.checkpoint_thread_id, t.graph, t.version, t.fence::text, t.head_checkpoint_id, t.state_version,
       ${BUSY(database)} AS busy,
       (SELECT coalesce(json_agg(json_build_object('interrupt_id', i.interrupt_id, 'node', i.node) ORDER BY i.sequence), '[]')
        FROM ${database.table('interrupts')} i
        WHERE i.tenant_id = t.tenant_id AND i.thread_id = t.thread_id AND (i.status = 'pending'
          OR i.status = 'answered' AND EXISTS (SELECT FROM ${database.table('runs')} r
            WHERE r.tenant_id = i.tenant_id AND r.run_id = i.answer_run_id AND r.status = 'pending'))) AS asked,
       (SELECT g.shape -> 'channels' FROM ${database.table('graph_versions')} g
        WHERE g.tenant_id = t.tenant_id AND g.graph = t.graph AND g.version = t.version) AS channels,
       (SELECT json_build_object('changed', m.changed, 'from', m.from_version) FROM ${database.table('thread_migrations')} m
        WHERE m.tenant_id = t.tenant_id AND m.migration_id = $3 AND m.thread_id = t.thread_id) AS done
     FROM ${database.table('threads')} t WHERE t.tenant_id = $1 AND t.thread_id = $2 AND t.deleted_at IS NULL`,
    [tenant, threadId, migrationId],
  );
  const row = rows[0];
  if (!row) throw new UnknownThreadError(threadId);
  return row;
}

/**
 * Locks the thread's row, if nothing has happened to the thread since it was looked at.
 * @returns why it can't be moved now; null when it may.
 */
export async function lockForMigration(
  client: pg.PoolClient,
  database: Database,
  tenant: string,
  seen: MigrationCandidate,
): Promise<string | null> {
  const at = [tenant, seen.thread_id];
  await client.query(
    `SELECT FROM ${database.table('threads')} WHERE tenant_id = $1 AND thread_id = $2 FOR UPDATE`,
    at,
  );
  // A statement of its own: what others committed before the lock was had is seen only by the next snapshot.
  const { rows } = await client.query<{ same: boolean; busy: string | null }>(
    `SELECT t.fence = $3 AND t.version = $4 AND t.head_checkpoint_id IS NOT DISTINCT FROM $5 AND t.deleted_at IS NULL AS same,
       ${BUSY(database)} AS busy
     FROM ${database.table('threads')} t WHERE t.tenant_id = $1 AND t.thread_id = $2`,
    [...at, seen.fence, seen.version, seen.head_checkpoint_id],
  );
  const row = rows[0];
  if (row?.same !== true) return 'it went on while it was looked at; try again';
  return row.busy;
}

export type MigrationRecord = {
  migration_id: string;
  to: string;
  path: string[];
  checkpoint_before: string | null;
  checkpoint_after: string | null;
  changed: string[];
  actor: string;
};

/**
 * Moves the thread to its new version and records that, in the transaction that locked it. Attempts under the old
 * version are shut out by a new fence; their workflow is marked, so that a sweeper ends it.
 */
export async function recordMigration(
  client: pg.PoolClient,
  database: Database,
  tenant: string,
  from: MigrationCandidate,
  record: MigrationRecord,
): Promise<void> {
  const at = [tenant, from.thread_id];
  // What has ended is shown as it ended: under its version, and with the state as it was.
  await client.query(
    `UPDATE ${database.table('runs')} SET version = coalesce(version, $3),
       checkpoint_id = CASE WHEN checkpoint_id = $4 AND status <> 'interrupted' THEN $5 ELSE checkpoint_id END
     WHERE tenant_id = $1 AND thread_id = $2 AND status NOT IN ('pending', 'running')`,
    [...at, from.version, from.head_checkpoint_id, record.checkpoint_before],
  );
  await client.query(
    `UPDATE ${database.table('threads')} SET version = $3, fence = fence + 1, stray_workflow = true, updated_at = now(),
       state_version = state_version + CASE WHEN head_checkpoint_id IS NULL THEN 0 ELSE 1 END
     WHERE tenant_id = $1 AND thread_id = $2`,
    [...at, record.to],
  );
  await client.query(
    `INSERT INTO ${database.table('thread_migrations')} (tenant_id, thread_id, migration_id, graph, from_version, to_version,
       path, checkpoint_before, checkpoint_after, changed, actor)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
    [
      ...at,
      record.migration_id,
      from.graph,
      from.version,
      record.to,
      JSON.stringify(record.path),
      record.checkpoint_before,
      record.checkpoint_after,
      JSON.stringify(record.changed),
      record.actor,
    ],
  );
}

export type MigrationFilter = {
  graph: string;
  to: string;
  from?: string | undefined;
  after: string;
  limit: number;
};

/** Threads of the graph that are under another version, in the order of their ids. */
export async function threadsToMigrate(
  database: Database,
  tenant: string,
  filter: MigrationFilter,
): Promise<string[]> {
  const { rows } = await database.query<{ thread_id: string }>(
    `SELECT thread_id FROM ${database.table('threads')}
     WHERE tenant_id = $1 AND graph = $2 AND version <> $3 AND ($4::text IS NULL OR version = $4)
       AND deleted_at IS NULL AND thread_id > $5 ORDER BY thread_id LIMIT $6`,
    [tenant, filter.graph, filter.to, filter.from ?? null, filter.after, filter.limit],
  );
  return rows.map((row) => row.thread_id);
}
