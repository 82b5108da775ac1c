import { spawn } from 'node:child_process';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { createRequire } from 'node:module';
import { makeInCache } from './cache-folder.ts';
import { endOf } from './child-end.ts';

/** How long the download may stand still. A download that moves on is let go on, up to the overall limit. */
const STALL_MS = 20_000;
const OVERALL_MS = 10 * 60_000;
const TELL_EVERY_MS = 5_000;

/** What to download, and where to put it. */
export interface TemporalDownload {
  version: string;
  cacheDir: string;
  target: string;
  onProgress: (line: string) => void;
}

/**
 * The SDK downloads the CLI as a part of starting its own short-lived server, and has no step for the download
 * alone. So a child process starts one and stops it at once; a child can also be ended when it hangs.
 */
const CHILD = `
  const [module, downloadDir, version] = process.argv.slice(1);
  try {
    const { TestWorkflowEnvironment } = await import(module);
    const environment = await TestWorkflowEnvironment.createLocal({
      server: { executable: { type: 'cached-download', downloadDir, version, ttl: '1 hour' } },
    });
    await environment.teardown();
  } catch (error) {
    console.error('REASON ' + (error.cause?.message ?? error.message).replaceAll('\\n', ' '));
    process.exit(1);
  }
`;

/**
 * Lets the Temporal SDK download the CLI into the cache.
 * @returns the path of the executable in the cache.
 * @throws with the SDK's reason, or when the download stands still for 20 seconds.
 */
export async function downloadTemporal({
  version,
  cacheDir,
  target,
  onProgress,
}: TemporalDownload): Promise<string> {
  return await makeInCache(cacheDir, target, async (directory) => {
    onProgress(`downloading Temporal ${version}`);
    const file = join(directory, `temporal-v${version}`);
    await sdkDownload(directory, `v${version}`, file, onProgress);
    return file;
  });
}

async function sdkDownload(
  directory: string,
  version: string,
  file: string,
  onProgress: (line: string) => void,
): Promise<void> {
  const module = pathToFileURL(createRequire(import.meta.url).resolve('@temporalio/testing')).href;
  const child = spawn(process.execPath, ['--input-type=module', '-e', CHILD, module, directory, version], {
    cwd: directory,
    stdio: ['ignore', 'ignore', 'pipe'],
    timeout: OVERALL_MS,
    killSignal: 'SIGKILL',
  });
  const watch = watchGrowth(file, onProgress, () => child.kill('SIGKILL'));
  const { code, signal, said } = await endOf(child).finally(() => clearInterval(watch));
  // Whole once it has its own name, whatever became of the server that the SDK then started with it.
  if (sizeOf(file) !== undefined) return;
  if (signal !== null) throw new Error(`no progress for ${STALL_MS / 1000} seconds`);
  const reason = /^REASON (?:Failed to start ephemeral server: )?(.*)$/m.exec(said)?.[1];
  // The SDK says the same twice over, once for each error in the chain.
  if (reason !== undefined) throw new Error(reason.replace(/(.+): \1$/, '$1'));
  throw new Error(said.split('\n').at(-1) || `it ended with ${String(code)}`);
}

/** Tells how much has come, and calls `stop` when nothing more comes. */
function watchGrowth(file: string, onProgress: (line: string) => void, stop: () => void): NodeJS.Timeout {
  let last = -1;
  let changed = Date.now();
  let told = Date.now();
  return setInterval(() => {
    const now = Date.now();
    // It has come whole; the SDK now starts and stops its server, which must not be cut short.
    if (sizeOf(file) !== undefined) return;
    const size = sizeOf(`${file}.downloading`) ?? 0;
    if (size !== last) changed = now;
    last = size;
    if (now - told >= TELL_EVERY_MS && size > 0) {
      onProgress(`downloading Temporal: ${Math.round(size / 1e6)} MB`);
      told = now;
    }
    if (now - changed > STALL_MS) stop();
  }, 250);
}

function sizeOf(path: string): number | undefined {
  return statSync(path, { throwIfNoEntry: false })?.size;
}
