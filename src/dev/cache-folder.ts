import { mkdir, mkdtemp, readdir, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { codeOf } from './errors.ts';

const PREFIX = 'making-';
/** Longer than any download or build may take. */
const LEFT_BEHIND_MS = 60 * 60_000;

/**
 * Runs `make` with a new folder inside the cache and moves the file that it returns to `target` in one step, so
 * that the cache never holds half a file. Folders that a killed process left behind are removed.
 */
export async function makeInCache(
  cacheDir: string,
  target: string,
  make: (directory: string) => Promise<string>,
): Promise<string> {
  await mkdir(cacheDir, { recursive: true });
  await removeLeftBehind(cacheDir);
  const directory = await mkdtemp(join(cacheDir, PREFIX));
  try {
    const made = await make(directory);
    await mkdir(dirname(target), { recursive: true });
    await rename(made, target);
    return target;
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

async function removeLeftBehind(cacheDir: string): Promise<void> {
  for (const name of await readdir(cacheDir)) {
    if (!name.startsWith(PREFIX)) continue;
    const path = join(cacheDir, name);
    try {
      const { mtimeMs } = await stat(path);
      if (Date.now() - mtimeMs > LEFT_BEHIND_MS) await rm(path, { recursive: true, force: true });
    } catch (error) {
      // Its maker just removed it.
      if (codeOf(error) !== 'ENOENT') throw error;
    }
  }
}
