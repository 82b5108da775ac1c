import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** What is built, installed or kept beside the project's own files. */
const NOT_OURS = new Set(['.git', '.perdure', 'coverage', 'dist', 'node_modules', '.env']);

/** Every file of the project, or of one folder of it, relative to its root and with forward slashes. */
export function projectFiles(folder = ''): string[] {
  return readdirSync(join(ROOT, folder), { withFileTypes: true }).flatMap((entry) => {
    if (NOT_OURS.has(entry.name)) return [];
    const path = folder === '' ? entry.name : `${folder}/${entry.name}`;
    if (entry.isDirectory()) return projectFiles(path);
    return entry.isFile() && !entry.name.endsWith('.log') ? [path] : [];
  });
}

/** The text of a file of the project. */
export function readText(path: string): string {
  return readFileSync(join(ROOT, path), 'utf8');
}
