import type pg from 'pg';
import { artifactHolder, type ArtifactHolder, type ArtifactStatus } from '../contracts/artifacts.ts';
import { ArtifactUnavailableError, InvalidInputError, UnknownArtifactError } from '../contracts/errors.ts';
import type { Database } from '../postgres/database.ts';

/**
 * Records in the caller's transaction that the holder needs the artifact: gc leaves it from the commit on. Again is no
 * error.
 * @throws UnknownArtifactError | ArtifactUnavailableError | InvalidInputError
 */
export async function addArtifactReference(
  client: pg.PoolClient,
  database: Database,
  tenant: string,
  artifactId: string,
  holder: ArtifactHolder,
): Promise<void> {
  const { kind, id } = checkHolder(holder);
  // Waits for a gc that is about to take it, and is waited for by one that comes later.
  const { rows } = await client.query<{ status: ArtifactStatus }>(
    `SELECT status FROM ${database.table('artifacts')} WHERE tenant_id = $1 AND artifact_id = $2 FOR KEY SHARE`,
    [tenant, artifactId],
  );
  const status = rows[0]?.status;
  if (status === undefined) throw new UnknownArtifactError(artifactId);
  if (status !== 'ready') throw new ArtifactUnavailableError(artifactId, status);
  await client.query(
    `INSERT INTO ${database.table('artifact_references')} (tenant_id, artifact_id, holder_kind, holder_id)
     VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`,
    [tenant, artifactId, kind, id],
  );
}

/**
 * Takes back what the holder needs: one artifact, or all without `artifactId`. Where nobody else needs one, gc may take
 * it once its grace has passed from now.
 * @returns how many references went.
 */
export async function removeArtifactReferences(
  client: pg.PoolClient,
  database: Database,
  tenant: string,
  holder: ArtifactHolder,
  artifactId?: string,
): Promise<number> {
  const { kind, id } = checkHolder(holder);
  const [artifacts, references] = [database.table('artifacts'), database.table('artifact_references')];
  const held = 'tenant_id = $1 AND holder_kind = $2 AND holder_id = $3';
  // Artifacts before references, and in order, as everybody locks them.
  const locked = await client.query<{ artifact_id: string }>(
    `SELECT artifact_id FROM ${artifacts}
     WHERE tenant_id = $1 AND ($4::uuid IS NULL OR artifact_id = $4)
       AND artifact_id IN (SELECT artifact_id FROM ${references} WHERE ${held})
     ORDER BY artifact_id FOR NO KEY UPDATE`,
    [tenant, kind, id, artifactId ?? null],
  );
  const ids = locked.rows.map((row) => row.artifact_id);
  const { rowCount } = await client.query(
    `DELETE FROM ${references} WHERE ${held} AND artifact_id = ANY($4::uuid[])`,
    [tenant, kind, id, ids],
  );
  await client.query(
    `UPDATE ${artifacts} SET touched_at = now() WHERE tenant_id = $1 AND artifact_id = ANY($2::uuid[])`,
    [tenant, ids],
  );
  return rowCount ?? 0;
}

/** @throws InvalidInputError */
export function checkHolder(holder: ArtifactHolder): ArtifactHolder {
  const parsed = artifactHolder.safeParse(holder);
  if (parsed.success) return parsed.data;
  throw new InvalidInputError(`holder: ${parsed.error.issues[0]?.message ?? 'is invalid'}`);
}
