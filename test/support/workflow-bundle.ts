import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rename, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { bundleWorkflowCode } from '@temporalio/worker';

const ROOT = new URL('../../', import.meta.url);

/** The workflow code of this tree, bundled once for as long as it stays the same: bundling takes seconds. */
export async function workflowBundle(): Promise<{ codePath: string }> {
  const folder = new URL('node_modules/.cache/perdure/', ROOT);
  const file = new URL(`workflows-${await sourceHash()}.js`, folder);
  if (!existsSync(file)) {
    const workflowsPath = fileURLToPath(new URL('src/workflows/index.ts', ROOT));
    const { code } = await bundleWorkflowCode({ workflowsPath, logger: SILENT });
    await mkdir(folder, { recursive: true });
    // Several test files may be doing this at once.
    const mine = new URL(`${file.href}.${process.pid}`);
    await writeFile(mine, code);
    await rename(mine, file);
  }
  return { codePath: fileURLToPath(file) };
}

const SILENT = { log() {}, trace() {}, debug() {}, info() {}, warn() {}, error() {} };

async function sourceHash(): Promise<string> {
  const hash = createHash('sha256');
  hash.update(await readFile(new URL('node_modules/@temporalio/workflow/package.json', ROOT)));
  for (const folder of ['src/workflows/', 'src/contracts/'])
    for (const name of (await readdir(new URL(folder, ROOT))).filter((file) => file.endsWith('.ts')).sort())
      hash.update(await readFile(new URL(`${folder}${name}`, ROOT)));
  return hash.digest('hex').slice(0, 16);
}
