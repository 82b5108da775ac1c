import { readdirSync, statSync, type Stats } from 'node:fs';
import { basename, join } from 'node:path';
import type { Project } from '../graph/langgraph-json.ts';

const CODE = /\.[cm]?[jt]sx?$/;
const SETTINGS = new Set(['langgraph.json', 'package.json', 'tsconfig.json', '.env']);
/** What no worker loads. A graph's own file counts wherever it lies. */
const LEFT_OUT = new Set([
  'node_modules',
  '.perdure',
  'dist',
  '.git',
  'coverage',
  'test',
  'tests',
  '__tests__',
]);
/** A project with more files than this is looked through in part. */
const MAX_FILES = 5_000;

/**
 * Whether the project's code was changed after `since` (ms since 1970): in its own folder, or a file of its graphs.
 * Of other JSON files, which may be inputs or results, only those count that were there before, since code that was
 * loaded then may have read them.
 * @param ignored files that don't count, such as the input of the run at hand. Absolute.
 */
export function changedSince(project: Project, since: number, ignored: readonly string[] = []): boolean {
  if ([project.file, ...project.graphs.map(({ file }) => file)].some((file) => isNewer(file, since)))
    return true;
  const folders = [project.folder];
  let seen = 0;
  for (let folder = folders.shift(); folder !== undefined && seen < MAX_FILES; folder = folders.shift()) {
    for (const entry of entriesOf(folder)) {
      const path = join(folder, entry.name);
      if (entry.isDirectory() && !LEFT_OUT.has(entry.name)) folders.push(path);
      if (!entry.isFile() || !(CODE.test(path) || path.endsWith('.json') || SETTINGS.has(entry.name)))
        continue;
      seen += 1;
      if (!ignored.includes(path) && isNewer(path, since)) return true;
    }
  }
  return false;
}

function isNewer(path: string, since: number): boolean {
  const stat = statSync(path, { throwIfNoEntry: false });
  if (stat === undefined || changedAt(stat) <= since) return false;
  return CODE.test(path) || SETTINGS.has(basename(path)) || stat.birthtimeMs <= since;
}

/** A file that was moved into place, or copied with its times, is told by its inode's change. */
function changedAt(stat: Stats): number {
  return Math.max(stat.mtimeMs, stat.ctimeMs);
}

function entriesOf(folder: string) {
  try {
    return readdirSync(folder, { withFileTypes: true });
  } catch (error) {
    // Gone meanwhile, or not ours to read: no source of this project.
    if (error instanceof Error && 'code' in error) return [];
    throw error;
  }
}
