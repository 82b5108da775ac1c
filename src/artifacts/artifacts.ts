import type { Readable } from 'node:stream';
import type { ArtifactSettings } from '../config/artifact-settings.ts';
import {
  toArtifactReference,
  type ArtifactHolder,
  type ArtifactReference,
  type ArtifactView,
} from '../contracts/artifacts.ts';
import {
  ArtifactCorruptError,
  ArtifactUnavailableError,
  isPerdureError,
  UnknownArtifactError,
} from '../contracts/errors.ts';
import type { Database } from '../postgres/database.ts';
import { faultPoint } from '../telemetry/fault-points.ts';
import { collectGarbage, removeUnused, type Collected, type CollectOptions } from './collect.ts';
import { isMissing, openObjects, type Objects } from './objects.ts';
import { ArtifactPaths, tenantFolder } from './paths.ts';
import { checkPutOptions, Gate, putArtifact, type PutOptions, type Store } from './put.ts';
import { addArtifactReference, removeArtifactReferences } from './references.ts';
import { listArtifacts, lockContent, readArtifact, type ListOptions } from './rows.ts';
import { checked, type ArtifactContent } from './streams.ts';

/** An artifact's id, or what state holds of it: then that is compared with what is on record. */
export type ArtifactKey = string | ArtifactReference;

/** What a check of an artifact's bytes found. */
export type Verification = { artifact_id: string; status: ArtifactView['status'] } & (
  { ok: true } | { ok: false; problem: string; message: string }
);

export type ArtifactsOptions = { database: Database; tenant: string; settings: ArtifactSettings };

/** Uploads of one process whose bytes are put in their place at a time. */
const PLACES = 2;

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** The large things of one tenant. @throws ConfigError where S3's packages are missing; nothing is reached yet. */
export async function openArtifacts({ database, tenant, settings }: ArtifactsOptions): Promise<Artifacts> {
  return new Artifacts(database, tenant, await openObjects(settings));
}

export class Artifacts {
  readonly #database: Database;
  readonly #tenant: string;
  readonly #objects: Objects;
  readonly #gate = new Gate(PLACES);
  #paths: ArtifactPaths | undefined;

  constructor(database: Database, tenant: string, objects: Objects) {
    this.#database = database;
    this.#tenant = tenant;
    this.#objects = objects;
  }

  /** The folder or bucket, for people. */
  get place(): string {
    return this.#objects.place;
  }

  /**
   * Takes bytes in, of any size, in constant memory. Where the tenant has a ready artifact with the same bytes, that one
   * is the result, with its own media type and name.
   * @throws InvalidInputError | ArtifactStorageError | StorageUnavailableError, and what the content itself throws
   */
  async put(content: ArtifactContent, options: PutOptions = {}): Promise<ArtifactReference> {
    checkPutOptions(options);
    const id = await putArtifact(await this.#store(), content, options, this.#gate);
    return toArtifactReference(await this.view(id));
  }

  /**
   * The bytes, as a stream that checks them: it ends with an ArtifactCorruptError where they are not those that were put
   * in, and never gives all of them before that is known. Read it to its end, or destroy it.
   * @throws UnknownArtifactError | ArtifactUnavailableError | ArtifactCorruptError | ArtifactStorageError
   */
  async open(key: ArtifactKey): Promise<Readable> {
    const view = await this.view(key);
    if (view.status !== 'ready') throw new ArtifactUnavailableError(view.artifact_id, view.status);
    return this.#read(view);
  }

  /** What is on record. @throws UnknownArtifactError; ArtifactCorruptError where a reference doesn't fit it. */
  async view(key: ArtifactKey): Promise<ArtifactView> {
    const id = typeof key === 'string' ? key : key.artifact_id;
    if (!UUID.test(id)) throw new UnknownArtifactError(id);
    const query = this.#database.query.bind(this.#database);
    const view = await readArtifact(this.#database, query, this.#tenant, id);
    if (typeof key !== 'string' && (view.sha256 !== key.sha256 || view.size !== key.size))
      throw new ArtifactCorruptError(id, 'reference', { expected: view.sha256, found: key.sha256 });
    return view;
  }

  /** Newest first, 100 at most unless told otherwise. */
  list(options: ListOptions = {}): Promise<ArtifactView[]> {
    return listArtifacts(this.#database, this.#tenant, options);
  }

  /**
   * Reads all bytes of a ready artifact, or of one in quarantine.
   * @param options.quarantine put it in quarantine where they are wrong. Bytes that are missing don't count: a disk that
   * isn't there would quarantine everything.
   * @throws UnknownArtifactError | ArtifactUnavailableError | ArtifactStorageError
   */
  async verify(key: ArtifactKey, options: { quarantine?: boolean } = {}): Promise<Verification> {
    const view = await this.view(key);
    const { artifact_id, status } = view;
    if (status !== 'ready' && status !== 'quarantined')
      throw new ArtifactUnavailableError(artifact_id, status);
    try {
      for await (const _ of await this.#read(view));
      return { artifact_id, status, ok: true };
    } catch (error) {
      if (!isPerdureError(error, 'ARTIFACT_CORRUPT')) throw error;
      const problem = String(error.details['problem']);
      const after =
        options.quarantine === true && problem !== 'missing' ? await this.quarantine(artifact_id) : view;
      return { artifact_id, status: after.status, ok: false, problem, message: error.message };
    }
  }

  /**
   * Keeps the bytes, and refuses them to readers from now on. The same bytes put in again make a new artifact.
   * @throws UnknownArtifactError; ArtifactUnavailableError for one that is pending or erased
   */
  async quarantine(key: ArtifactKey): Promise<ArtifactView> {
    const { artifact_id } = await this.view(key);
    await this.#database.query(
      `UPDATE ${this.#database.table('artifacts')} SET status = 'quarantined'
       WHERE tenant_id = $1 AND artifact_id = $2 AND status = 'ready'`,
      [this.#tenant, artifact_id],
    );
    const view = await this.view(artifact_id);
    if (view.status === 'quarantined') return view;
    throw new ArtifactUnavailableError(artifact_id, view.status === 'pending' ? 'pending' : 'erased');
  }

  /**
   * Removes the bytes for good, whoever references the artifact. Its row stays, without its name; so does that of every
   * artifact with the same bytes. Again is no error, and removes what a crash left.
   * @throws UnknownArtifactError | ArtifactStorageError
   */
  async erase(key: ArtifactKey): Promise<ArtifactView> {
    const store = await this.#store();
    const { artifact_id } = await this.view(key);
    // From here on it has a hash and is complete, or is erased.
    const sha256 = await this.#eraseRows(artifact_id, null);
    if (sha256 !== null) {
      await this.#eraseRows(artifact_id, sha256);
      faultPoint('artifact:row-erased');
      await removeUnused(store, sha256);
    }
    await this.#objects.remove(store.paths.upload(artifact_id));
    return this.view(artifact_id);
  }

  /** Records that the holder needs a ready artifact, so that gc leaves it. Again is no error. */
  async addReference(key: ArtifactKey, holder: ArtifactHolder): Promise<void> {
    const { artifact_id } = await this.view(key);
    await this.#database.transaction((client) =>
      addArtifactReference(client, this.#database, this.#tenant, artifact_id, holder),
    );
  }

  /** The holder no longer needs this artifact, or without `key` any. @returns how many references went. */
  async removeReferences(holder: ArtifactHolder, key?: ArtifactKey): Promise<number> {
    const id = key === undefined ? undefined : (await this.view(key)).artifact_id;
    return this.#database.transaction((client) =>
      removeArtifactReferences(client, this.#database, this.#tenant, holder, id),
    );
  }

  /** Removes what nothing references and what crashes left. */
  async gc(options: CollectOptions = {}): Promise<Collected> {
    return collectGarbage(await this.#store(), options);
  }

  /** Closes connections to the storage, not those to Postgres. */
  close(): void {
    this.#objects.close();
  }

  async #read({ artifact_id, sha256, size }: ArtifactView): Promise<Readable> {
    if (sha256 === null || size === null) throw new ArtifactUnavailableError(artifact_id, 'pending');
    const { paths, objects } = await this.#store();
    try {
      return checked(await objects.read(paths.content(sha256)), { artifact_id, sha256, size });
    } catch (error) {
      if (!isMissing(error)) throw error;
      // Erased, or taken by gc, since it was looked up?
      const { status } = await this.view(artifact_id);
      if (status === 'erased') throw new ArtifactUnavailableError(artifact_id, status);
      throw new ArtifactCorruptError(artifact_id, 'missing');
    }
  }

  /**
   * Marks the artifact where it is pending; with its hash, under the lock of that hash, also where it is complete, and
   * with it all that have the same bytes.
   * @returns its hash; null where it never had one.
   */
  async #eraseRows(artifactId: string, sha256: Buffer | null): Promise<Buffer | null> {
    const artifacts = this.#database.table('artifacts');
    return this.#database.transaction(async (client) => {
      if (sha256) await lockContent(client, this.#database, this.#tenant, sha256);
      await client.query(
        `SELECT FROM ${artifacts} WHERE tenant_id = $1 AND (artifact_id = $2 OR sha256 = $3)
         ORDER BY artifact_id FOR UPDATE`,
        [this.#tenant, artifactId, sha256],
      );
      await client.query(
        `UPDATE ${artifacts} SET status = 'erased', erased_at = now(), name = NULL
         WHERE tenant_id = $1 AND (
           (artifact_id = $2 AND status = 'pending')
           OR (sha256 = $3 AND status IN ('ready', 'quarantined') AND EXISTS (
             SELECT FROM ${artifacts}
             WHERE tenant_id = $1 AND artifact_id = $2 AND status IN ('ready', 'quarantined'))))`,
        [this.#tenant, artifactId, sha256],
      );
      const { rows } = await client.query<{ sha256: Buffer | null }>(
        `SELECT sha256 FROM ${artifacts} WHERE tenant_id = $1 AND artifact_id = $2`,
        [this.#tenant, artifactId],
      );
      const row = rows[0];
      if (row === undefined) throw new UnknownArtifactError(artifactId);
      return row.sha256;
    });
  }

  async #store(): Promise<Store> {
    this.#paths ??= new ArtifactPaths(await tenantFolder(this.#database, this.#tenant));
    return {
      database: this.#database,
      tenant: this.#tenant,
      objects: this.#objects,
      paths: this.#paths,
    };
  }
}
