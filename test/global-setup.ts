import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { TestProject } from 'vitest/node';
import { up } from '../src/dev/index.ts';
import { isRunning, makeRunFolder, removeRunFolders } from './dev/run-folders.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    databaseUrl: string;
    temporalAddress: string;
  }
}

/**
 * One Postgres and one Temporal for the whole run. A developer can keep a pair running between runs: with
 * PERDURE_TEST_DATABASE_URL and PERDURE_TEST_TEMPORAL_ADDRESS set, those are used and none is started.
 * Test files that make homes of their own put PERDURE_TEST_RUN into the folder's name, so that this finds them.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  process.env['PERDURE_TEST_RUN'] = String(process.pid);
  removeWhenThisEnds();
  const teardown = () => removeRunFolders((pid) => pid === process.pid);
  try {
    // A run that starts at the same moment may be removing the same folders.
    await removeRunFolders((pid) => !isRunning(pid)).catch((error: unknown) =>
      console.error('of an earlier run:', error),
    );
    const servers = await up({
      home: join(makeRunFolder(process.pid), '.perdure'),
      databaseUrl: process.env['PERDURE_TEST_DATABASE_URL'],
      temporalAddress: process.env['PERDURE_TEST_TEMPORAL_ADDRESS'],
      temporalCli: process.env['PERDURE_TEMPORAL_CLI'],
      cacheDir: process.env['PERDURE_CACHE'],
      searchPath: process.env['PATH'],
      onProgress: (line) => console.error(line),
    });
    process.env['PERDURE_TEST_DATABASE_URL'] = servers.databaseUrl;
    process.env['PERDURE_TEST_TEMPORAL_ADDRESS'] = servers.temporalAddress;
    project.provide('databaseUrl', servers.databaseUrl);
    project.provide('temporalAddress', servers.temporalAddress);
  } catch (error) {
    await teardown();
    throw error;
  }
  return teardown;
}

function removeWhenThisEnds(): void {
  const script = fileURLToPath(new URL('./dev/remove-after-run.ts', import.meta.url));
  const watcher = spawn(process.execPath, ['--import', 'tsx', script, String(process.pid)], {
    detached: true,
    stdio: 'ignore',
  });
  watcher.unref();
}
