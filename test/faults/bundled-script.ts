import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'vite';
import { startProcess, type TestProcess } from './processes.ts';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));

export type BundledScript = {
  /** Runs it with one order, as JSON, in the variable ORDER. */
  start(order: unknown): TestProcess;
  remove(): Promise<void>;
};

/**
 * Makes one plain file of a script of this folder and of what it imports from the project: started dozens of times, it
 * must not be compiled each time.
 */
export async function bundledScript(name: string): Promise<BundledScript> {
  // In the project's folder, so that packages are found from there.
  const outDir = join(ROOT, 'node_modules/.cache/perdure', `${name}-${process.pid}`);
  await build({
    root: ROOT,
    configFile: false,
    logLevel: 'error',
    build: {
      ssr: join(ROOT, 'test/faults', `${name}.ts`),
      outDir,
      target: 'node20',
      minify: false,
      rolldownOptions: { output: { entryFileNames: 'script.mjs' } },
    },
  });
  return {
    start: (order) => startProcess([join(outDir, 'script.mjs')], { ORDER: JSON.stringify(order) }),
    remove: () => rm(outDir, { recursive: true, force: true }),
  };
}
