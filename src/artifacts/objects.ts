import type { Readable } from 'node:stream';
import type { FileStorage, StorageAdapter } from '@flystorage/file-storage';
import type { ArtifactSettings } from '../config/artifact-settings.ts';
import { ArtifactStorageError } from '../contracts/errors.ts';

/** Named bytes in a folder or a bucket. Every error but a stream's own is an ArtifactStorageError. */
export type Objects = {
  /** The folder or bucket, for people. */
  readonly place: string;
  /** Bytes of one object at most. */
  readonly maxSize: number;
  /** Whole and safe on return; what a failure leaves behind is none. */
  write(path: string, contents: Readable): Promise<void>;
  /** That there is none is told by {@link isMissing} of the error. */
  read(path: string): Promise<Readable>;
  /** Replaces what is there. */
  move(from: string, to: string): Promise<void>;
  /** Also where there is none. */
  remove(path: string): Promise<void>;
  /** Undefined where there is none. */
  stat(path: string): Promise<{ size: number; modifiedAt: number } | undefined>;
  /** Every object below the folder. */
  list(folder: string): AsyncIterable<string>;
  /** Closes connections. */
  close(): void;
};

/** What an adapter brings besides itself. */
export type AdapterPlace = { place: string; maxSize: number; close: () => void };

/** Opens the folder or the bucket; neither is touched before it is used. @throws ConfigError without S3's packages. */
export async function openObjects(settings: ArtifactSettings): Promise<Objects> {
  if (settings.kind === 'folder') {
    const { openFolder } = await import('./folder.ts');
    return openFolder(settings.folder);
  }
  const { openBucket } = await import('./bucket.ts');
  return openBucket(settings);
}

export function objectsOf(
  adapter: StorageAdapter & { read(path: string, options: object): Promise<unknown> },
  storage: FileStorage,
  { place, maxSize, close }: AdapterPlace,
): Objects {
  const attempt = async <T>(what: string, work: () => Promise<T>): Promise<T> => {
    try {
      return await work();
    } catch (error) {
      throw storageFailure(place, what, error);
    }
  };
  return {
    place,
    maxSize,
    close,
    // The type is told, or the adapter would read ahead to guess it.
    write: (path, contents) =>
      attempt('written', () => storage.write(path, contents, { mimeType: 'application/octet-stream' })),
    // Not by FileStorage, which leaves a file open when a reader stops early.
    read: (path) => attempt('read', async () => (await adapter.read(path, {})) as Readable),
    move: (from, to) => attempt('written', () => storage.moveFile(from, to)),
    remove: (path) => attempt('removed', () => storage.deleteFile(path)),
    stat: async (path) => {
      try {
        const { size, lastModifiedMs } = await storage.statFile(path);
        return { size: size ?? 0, modifiedAt: lastModifiedMs ?? 0 };
      } catch (error) {
        if (isMissing(error)) return undefined;
        throw storageFailure(place, 'read', error);
      }
    },
    async *list(folder) {
      try {
        for await (const entry of storage.list(folder, { deep: true })) if (entry.isFile) yield entry.path;
      } catch (error) {
        // A folder comes into being with its first object.
        if (!isMissing(error)) throw storageFailure(place, 'listed', error);
      }
    },
  };
}

function storageFailure(place: string, what: string, error: unknown): ArtifactStorageError {
  const root = rootCause(error);
  const why = root instanceof Error ? root.message || root.name : String(root);
  return new ArtifactStorageError(
    `Artifacts in ${place} can't be ${what}: ${why}. Check PERDURE_ARTIFACTS and who may write there.`,
    { cause: error },
  );
}

function rootCause(error: unknown): unknown {
  return error instanceof Error && error.cause !== undefined ? rootCause(error.cause) : error;
}

const MISSING_CODES = new Set(['ENOENT', 'ENOTDIR']);
/** Source: Amazon S3 API reference, "List of error codes"; HEAD has no body, and the SDK calls it NotFound. */
const MISSING_NAMES = new Set(['NoSuchKey', 'NotFound']);

/** Whether the error says that there is no such object. */
export function isMissing(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (MISSING_NAMES.has(error.name)) return true;
  if ('code' in error && MISSING_CODES.has(String(error.code))) return true;
  return error.cause !== undefined && isMissing(error.cause);
}
