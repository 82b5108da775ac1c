import { chmodSync, mkdtempSync, readdirSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isHome, removeHome } from '../../src/dev/index.ts';

const PREFIX = 'perdure-test-';

/** A new folder of the run with this pid; its name tells whose it is. */
export function makeRunFolder(pid: number, mode = 0o755): string {
  const folder = mkdtempSync(join(tmpdir(), `${PREFIX}${pid}-`));
  // With 755 the user that Postgres runs as can reach its data when the tests run as root.
  chmodSync(folder, mode);
  return folder;
}

/** Removes the folders of runs, with the homes in them and their servers. */
export async function removeRunFolders(ofRun: (pid: number) => boolean): Promise<void> {
  for (const name of readdirSync(tmpdir())) {
    const [, pid] = new RegExp(`^${PREFIX}(\\d+)-`).exec(name) ?? [];
    if (pid === undefined || !ofRun(Number(pid))) continue;
    const folder = join(tmpdir(), name);
    for (const entry of readdirSync(folder, { withFileTypes: true })) {
      if (entry.isDirectory() && isHome(join(folder, entry.name))) {
        await removeHome({ home: join(folder, entry.name) });
      }
    }
    await rm(folder, { recursive: true, force: true });
  }
}

export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // Another user's process counts as running: its folder isn't ours to remove.
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}
