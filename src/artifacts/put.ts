import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import { artifactName, mediaType, type ArtifactHolder } from '../contracts/artifacts.ts';
import { ArtifactStorageError, InvalidInputError } from '../contracts/errors.ts';
import { runId, threadId } from '../contracts/ids.ts';
import type { Database } from '../postgres/database.ts';
import { faultPoint } from '../telemetry/fault-points.ts';
import { isMissing, type Objects } from './objects.ts';
import type { ArtifactPaths } from './paths.ts';
import { addArtifactReference, checkHolder } from './references.ts';
import { deletePending, insertPending, lockContent, makeReady, type NewArtifact } from './rows.ts';
import { measure, type ArtifactContent } from './streams.ts';

export type PutOptions = {
  /** Default `application/octet-stream`. At most 255 characters. */
  mediaType?: string | undefined;
  /** What a person calls it; no path. At most 255 characters. */
  name?: string | undefined;
  /** The thread and the run that make it. */
  threadId?: string | undefined;
  runId?: string | undefined;
  /** Who needs it from the start. Without one gc takes the artifact once its grace has passed. */
  holder?: ArtifactHolder | undefined;
};

export type Store = { database: Database; tenant: string; objects: Objects; paths: ArtifactPaths };

const putOptions = z.object({
  media_type: mediaType.default('application/octet-stream'),
  name: artifactName.nullable().default(null),
  thread_id: threadId.nullable().default(null),
  run_id: runId.nullable().default(null),
});

/** @throws InvalidInputError */
export function checkPutOptions(options: PutOptions): Omit<NewArtifact, 'artifact_id'> {
  if (options.holder) checkHolder(options.holder);
  const parsed = putOptions.safeParse({
    media_type: options.mediaType,
    name: options.name,
    thread_id: options.threadId,
    run_id: options.runId,
  });
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  throw new InvalidInputError(`${issue?.path.join('.') ?? 'artifact'}: ${issue?.message ?? 'is invalid'}`);
}

/**
 * Takes the bytes in: a row that says `pending`, the bytes under the artifact's id, and then in one transaction the row
 * that says `ready` and the bytes under their hash. What a crash leaves is for gc.
 * @returns the id of the artifact that has the bytes now: this one, or one that had them before.
 */
export async function putArtifact(
  { database, tenant, objects, paths }: Store,
  content: ArtifactContent,
  options: PutOptions,
  gate: Gate,
): Promise<string> {
  const one = { ...checkPutOptions(options), artifact_id: newArtifactId() };
  const upload = paths.upload(one.artifact_id);
  await insertPending(database, tenant, one);
  try {
    faultPoint('artifact:pending');
    const measured = measure(content, objects.maxSize);
    try {
      await objects.write(upload, measured.stream);
    } catch (error) {
      throw measured.failure() ?? error;
    }
    faultPoint('artifact:uploaded');
    const size = measured.size();
    const sha256 = measured.sha256();
    const ready = await gate.pass(() =>
      database.transaction(async (client) => {
        await lockContent(client, database, tenant, sha256);
        const id = await makeReady(client, database, tenant, { artifact_id: one.artifact_id, sha256, size });
        if (id === undefined) throw collected(one.artifact_id);
        if (options.holder) await addArtifactReference(client, database, tenant, id, options.holder);
        const place = paths.content(sha256.toString('hex'));
        // Bytes that an artifact had before may have been lost since: then these replace them.
        if (id === one.artifact_id || (await objects.stat(place))?.size !== size)
          await objects.move(upload, place);
        faultPoint('artifact:moved');
        return id;
      }),
    );
    faultPoint('artifact:ready');
    // The artifact is there; an upload that can't be removed now is gc's.
    if (ready !== one.artifact_id) await objects.remove(upload).catch(() => undefined);
    return ready;
  } catch (error) {
    const [, forgotten] = await Promise.allSettled([
      objects.remove(upload),
      deletePending(database, tenant, one.artifact_id),
    ]);
    // Where that fails too, gc finds what is left.
    const wasGone = forgotten.status === 'fulfilled' && !forgotten.value;
    throw wasGone && isMissing(error) ? collected(one.artifact_id) : error;
  }
}

function collected(artifactId: string): ArtifactStorageError {
  return new ArtifactStorageError(
    `The upload of artifact '${artifactId}' was erased, or taken by gc, while it was under way. Upload it again, with a longer --grace for gc where it takes longer than that.`,
  );
}

/** Lets a few in at a time: each holds a connection to Postgres while bytes are moved, which takes S3 some seconds. */
export class Gate {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(places: number) {
    this.#free = places;
  }

  async pass<T>(work: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((enter) => this.#waiting.push(enter));
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next) next();
      else this.#free += 1;
    }
  }
}

/** A UUID of version 7, so that ids sort by time. Source: RFC 9562, section 5.7. */
function newArtifactId(now = Date.now()): string {
  const bytes = randomBytes(16);
  bytes.writeUIntBE(now, 0, 6);
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x70, 6);
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8);
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}
