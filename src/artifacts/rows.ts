import type pg from 'pg';
import type { ArtifactStatus, ArtifactView } from '../contracts/artifacts.ts';
import { UnknownArtifactError } from '../contracts/errors.ts';
import type { Database } from '../postgres/database.ts';

type Row = {
  artifact_id: string;
  status: ArtifactStatus;
  sha256: Buffer | null;
  size: string | null;
  media_type: string;
  name: string | null;
  thread_id: string | null;
  run_id: string | null;
  created_at: Date;
  ready_at: Date | null;
  erased_at: Date | null;
  references: number;
};

/** One statement, in a transaction or outside of one. */
export type Query = <R extends pg.QueryResultRow>(
  text: string,
  values: unknown[],
) => Promise<pg.QueryResult<R>>;

export const inTransaction =
  (client: pg.PoolClient): Query =>
  (text, values) =>
    client.query(text, values);

const select = (database: Database) => `
  SELECT a.artifact_id, a.status, a.sha256, a.size, a.media_type, a.name, a.thread_id, a.run_id,
         a.created_at, a.ready_at, a.erased_at,
         (SELECT count(*)::int FROM ${database.table('artifact_references')} r
          WHERE r.tenant_id = a.tenant_id AND r.artifact_id = a.artifact_id) AS "references"
  FROM ${database.table('artifacts')} a`;

function toView({ sha256, size, created_at, ready_at, erased_at, ...row }: Row): ArtifactView {
  return {
    ...row,
    sha256: sha256 === null ? null : sha256.toString('hex'),
    size: size === null ? null : Number(size),
    created_at: created_at.toISOString(),
    ready_at: ready_at?.toISOString() ?? null,
    erased_at: erased_at?.toISOString() ?? null,
  };
}

/** @throws UnknownArtifactError */
export async function readArtifact(
  database: Database,
  query: Query,
  tenant: string,
  artifactId: string,
): Promise<ArtifactView> {
  const { rows } = await query<Row>(`${select(database)} WHERE a.tenant_id = $1 AND a.artifact_id = $2`, [
    tenant,
    artifactId,
  ]);
  const row = rows[0];
  if (row === undefined) throw new UnknownArtifactError(artifactId);
  return toView(row);
}

export type ListOptions = {
  status?: ArtifactStatus | undefined;
  threadId?: string | undefined;
  /** Default 100. */
  limit?: number | undefined;
  /** Only those older than this one: where the last page ended. */
  before?: string | undefined;
};

/** Newest first: their ids begin with the time. */
export async function listArtifacts(
  database: Database,
  tenant: string,
  { status, threadId, limit = 100, before }: ListOptions,
): Promise<ArtifactView[]> {
  const { rows } = await database.query<Row>(
    `${select(database)}
     WHERE a.tenant_id = $1 AND ($2::text IS NULL OR a.status = $2) AND ($3::text IS NULL OR a.thread_id = $3)
       AND ($4::uuid IS NULL OR a.artifact_id < $4)
     ORDER BY a.artifact_id DESC LIMIT $5`,
    [tenant, status ?? null, threadId ?? null, before ?? null, limit],
  );
  return rows.map(toView);
}

export type NewArtifact = {
  artifact_id: string;
  media_type: string;
  name: string | null;
  thread_id: string | null;
  run_id: string | null;
};

export async function insertPending(database: Database, tenant: string, one: NewArtifact): Promise<void> {
  await database.query(
    `INSERT INTO ${database.table('artifacts')}
       (tenant_id, artifact_id, status, media_type, name, thread_id, run_id)
     VALUES ($1, $2, 'pending', $3, $4, $5, $6)`,
    [tenant, one.artifact_id, one.media_type, one.name, one.thread_id, one.run_id],
  );
}

/** @returns whether it was there. */
export async function deletePending(
  database: Database,
  tenant: string,
  artifactId: string,
): Promise<boolean> {
  const { rowCount } = await database.query(
    `DELETE FROM ${database.table('artifacts')}
     WHERE tenant_id = $1 AND artifact_id = $2 AND status = 'pending'`,
    [tenant, artifactId],
  );
  return rowCount === 1;
}

/**
 * For the rest of the transaction, nobody else puts bytes under this hash, takes them away, or decides about the
 * artifacts that have them. Taken before any lock on a row.
 */
export async function lockContent(
  client: pg.PoolClient,
  database: Database,
  tenant: string,
  sha256: Buffer,
): Promise<void> {
  await client.query('SELECT pg_advisory_xact_lock(hashtextextended($1, 0))', [
    `perdure:artifact:${database.schema}:${tenant}:${sha256.toString('hex')}`,
  ]);
}

/**
 * Makes the pending artifact ready, or finds the one that is ready with the same bytes, and forgets the pending one.
 * @returns the id of the one that is ready now; undefined where the pending one is gone.
 */
export async function makeReady(
  client: pg.PoolClient,
  database: Database,
  tenant: string,
  { artifact_id, sha256, size }: { artifact_id: string; sha256: Buffer; size: number },
): Promise<string | undefined> {
  const artifacts = database.table('artifacts');
  const { rows } = await client.query<{ artifact_id: string }>(
    `WITH mine AS (
       SELECT artifact_id FROM ${artifacts}
       WHERE tenant_id = $1 AND artifact_id = $2 AND status = 'pending' FOR UPDATE
     ), same AS (
       UPDATE ${artifacts} SET touched_at = now()
       WHERE tenant_id = $1 AND sha256 = $3 AND status = 'ready' AND EXISTS (SELECT FROM mine)
       RETURNING artifact_id
     ), forgotten AS (
       DELETE FROM ${artifacts}
       WHERE tenant_id = $1 AND artifact_id IN (SELECT artifact_id FROM mine) AND EXISTS (SELECT FROM same)
     ), made AS (
       UPDATE ${artifacts} SET status = 'ready', sha256 = $3, size = $4, ready_at = now(), touched_at = now()
       WHERE tenant_id = $1 AND artifact_id IN (SELECT artifact_id FROM mine) AND NOT EXISTS (SELECT FROM same)
       RETURNING artifact_id
     )
     SELECT artifact_id FROM same UNION ALL SELECT artifact_id FROM made`,
    [tenant, artifact_id, sha256, size],
  );
  return rows[0]?.artifact_id;
}

/** Whether an artifact has these bytes, be it in quarantine. */
export async function isContentUsed(
  query: Query,
  database: Database,
  tenant: string,
  sha256: Buffer,
): Promise<boolean> {
  const { rows } = await query(
    `SELECT FROM ${database.table('artifacts')}
     WHERE tenant_id = $1 AND sha256 = $2 AND status IN ('ready', 'quarantined') LIMIT 1`,
    [tenant, sha256],
  );
  return rows.length > 0;
}
