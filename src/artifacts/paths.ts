import { randomBytes } from 'node:crypto';
import type { Database } from '../postgres/database.ts';

/** Names of the objects of one tenant. Nothing of a name comes from outside but plain letters and digits. */
export class ArtifactPaths {
  readonly #root: string;

  /** @param folder the tenant's, as {@link tenantFolder} gives it. */
  constructor(folder: string) {
    this.#root = `tenants/${folder}`;
  }

  get uploads(): string {
    return `${this.#root}/uploads`;
  }

  get contents(): string {
    return `${this.#root}/sha256`;
  }

  upload(artifactId: string): string {
    return `${this.uploads}/${artifactId}`;
  }

  /** @param sha256 in hex. */
  content(sha256: string): string {
    return `${this.contents}/${sha256.slice(0, 2)}/${sha256}`;
  }
}

/** The last part of an object's name: the artifact's id, or the hash. */
export function lastPart(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}

/** The tenant's folder, chosen once: its name, as far as it is plain, and something random. */
export async function tenantFolder(database: Database, tenant: string): Promise<string> {
  const table = database.table('artifact_folders');
  const plain = tenant
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-|-$/g, '')
    .slice(0, 40);
  const chosen = [plain, randomBytes(8).toString('hex')].filter((part) => part !== '').join('-');
  await database.query(`INSERT INTO ${table} (tenant_id, folder) VALUES ($1, $2) ON CONFLICT DO NOTHING`, [
    tenant,
    chosen,
  ]);
  const { rows } = await database.query<{ folder: string }>(
    `SELECT folder FROM ${table} WHERE tenant_id = $1`,
    [tenant],
  );
  return rows[0]?.folder ?? chosen;
}
