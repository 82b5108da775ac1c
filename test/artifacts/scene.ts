import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { inject } from 'vitest';
import { openArtifacts, type Artifacts } from '../../src/artifacts/artifacts.ts';
import type { ArtifactSettings } from '../../src/config/artifact-settings.ts';
import { openDatabase, quoteIdentifier, type Database } from '../../src/postgres/database.ts';
import { migrate } from '../../src/postgres/migrate.ts';

/** A schema and a folder of its own, and the artifacts of a tenant in them. */
export type Scene = {
  database: Database;
  folder: string;
  artifacts: Artifacts;
  of(tenant: string, settings?: ArtifactSettings): Promise<Artifacts>;
  /** Files below the folder, from `tenants/` on without the tenant's folder. */
  files(): Promise<string[]>;
  rows(): Promise<{ id: string; status: string }[]>;
  close(): Promise<void>;
};

export async function openScene(): Promise<Scene> {
  const folder = mkdtempSync(join(tmpdir(), 'perdure artifacts '));
  const database = openDatabase({
    connectionString: inject('databaseUrl'),
    schema: `artifacts-${randomUUID().slice(0, 8)}`,
    max: 8,
  });
  await migrate(database);
  const of = (tenant: string, settings: ArtifactSettings = { kind: 'folder', folder }) =>
    openArtifacts({ database, tenant, settings });
  return {
    database,
    folder,
    artifacts: await of('default'),
    of,
    files: () => filesIn(folder),
    async rows() {
      const { rows } = await database.query<{ id: string; status: string }>(
        `SELECT artifact_id::text AS id, status FROM ${database.table('artifacts')} ORDER BY artifact_id`,
      );
      return rows;
    },
    async close() {
      await database.query(`DROP SCHEMA IF EXISTS ${quoteIdentifier(database.schema)} CASCADE`);
      await database.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

export async function filesIn(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
    .map((path) => path.replace(/^tenants\/[^/]+\//, ''))
    .sort();
}

export const read = async (stream: Promise<Readable>): Promise<string> =>
  (await buffer(await stream)).toString();

/** Where the bytes of an artifact lie, without the tenant's folder. */
export const contentPath = ({ sha256 }: { sha256: string }): string =>
  `sha256/${sha256.slice(0, 2)}/${sha256}`;
