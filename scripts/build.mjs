// Compiles src/ and workers/ into dist/, and bundles the workflow code once, so that no worker has to.
import { execFileSync } from 'node:child_process';
import { access, chmod, mkdir, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const tsc = fileURLToPath(new URL('bin/tsc', import.meta.resolve('typescript/package.json')));
execFileSync(process.execPath, [tsc, '-p', 'tsconfig.build.json'], { cwd: root, stdio: 'inherit' });

const workflows = new URL('../dist/src/workflows/index.js', import.meta.url);
await access(workflows);
const { bundleWorkflowCode } = await import('@temporalio/worker');
const quiet = { log() {}, trace() {}, debug() {}, info() {}, warn: console.warn, error: console.error };
const { code } = await bundleWorkflowCode({ workflowsPath: fileURLToPath(workflows), logger: quiet });
await mkdir(new URL('../dist/workflow-bundle/', import.meta.url), { recursive: true });
await writeFile(new URL('../dist/workflow-bundle/bundle.js', import.meta.url), code);

// tsc writes files that can't be executed.
await chmod(new URL('../dist/src/cli/main.js', import.meta.url), 0o755);
