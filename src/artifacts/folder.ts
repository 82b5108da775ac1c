import { open } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Readable } from 'node:stream';
import { FileStorage, Visibility, type MoveFileOptions, type WriteOptions } from '@flystorage/file-storage';
import { LocalStorageAdapter } from '@flystorage/local-fs';
import { objectsOf, type Objects } from './objects.ts';

/** Bytes that are read at a time. */
const PIECE = 256 * 1_024;

/** Objects as files of a folder that only its owner can read. */
export function openFolder(folder: string): Objects {
  const adapter = new DurableFiles(folder, { rootDirectoryVisibility: Visibility.PRIVATE });
  const storage = new FileStorage(adapter, undefined, {
    visibility: { visibility: Visibility.PRIVATE, directoryVisibility: Visibility.PRIVATE },
  });
  return objectsOf(adapter, storage, {
    place: folder,
    maxSize: Number.MAX_SAFE_INTEGER,
    close: () => undefined,
  });
}

/** Files that are still there when the machine lost its power just after. */
class DurableFiles extends LocalStorageAdapter {
  override async write(path: string, contents: Readable, options: WriteOptions): Promise<void> {
    await super.write(path, contents, options);
    await sync(join(this.rootDir, path));
  }

  override async moveFile(from: string, to: string, options: MoveFileOptions): Promise<void> {
    await super.moveFile(from, to, options);
    // The folder of the file may be new too.
    const folder = dirname(join(this.rootDir, to));
    await sync(folder);
    await sync(dirname(folder));
  }

  /** Closes the file also when the reader stops early, and says at once where there is none. */
  override async read(path: string): Promise<Readable> {
    const handle = await open(join(this.rootDir, path), 'r');
    return handle.createReadStream({ highWaterMark: PIECE });
  }
}

async function sync(path: string): Promise<void> {
  const handle = await open(path, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
