import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { without } from './child-environment.ts';
import { makeInCache } from './cache-folder.ts';
import { endOf } from './child-end.ts';

/** Two to four minutes on two cores; slow machines and slow networks get their time. */
const LIMIT_MS = 20 * 60_000;
const TELL_EVERY_MS = 5_000;

/** What to build, and where to put it. */
export interface TemporalBuild {
  go: string;
  version: string;
  cacheDir: string;
  target: string;
  onProgress: (line: string) => void;
}

/**
 * Builds the Temporal CLI from source with `go install`, telling the elapsed time every five seconds.
 * @returns the path of the executable in the cache.
 * @throws when the build fails, with the last line that Go said.
 */
export async function buildTemporal({
  go,
  version,
  cacheDir,
  target,
  onProgress,
}: TemporalBuild): Promise<string> {
  return await makeInCache(cacheDir, target, async (directory) => {
    const started = Date.now();
    const tell = () => {
      const seconds = Math.round((Date.now() - started) / 1000);
      onProgress(
        `building Temporal ${version} from source with Go: ${seconds} s (two to four minutes, only once)`,
      );
    };
    tell();
    const ticking = setInterval(tell, TELL_EVERY_MS);
    try {
      await goInstall(go, `github.com/temporalio/cli/cmd/temporal@v${version}`, directory);
    } finally {
      clearInterval(ticking);
    }
    return join(directory, 'temporal');
  });
}

/** Go refuses GOBIN when it builds for another platform, and a vendoring flag of the user's own project here. */
const MISLEADING = new Set(['GOOS', 'GOARCH', 'GOFLAGS']);

async function goInstall(go: string, module: string, directory: string): Promise<void> {
  const child = spawn(go, ['install', module], {
    cwd: directory,
    env: without({ ...process.env, GOBIN: directory }, (name) => MISLEADING.has(name)),
    stdio: ['ignore', 'ignore', 'pipe'],
    timeout: LIMIT_MS,
    killSignal: 'SIGKILL',
  });
  const { code, signal, said } = await endOf(child);
  if (code === 0) return;
  if (signal !== null) throw new Error(`stopped by ${signal} after at most ${LIMIT_MS / 60_000} minutes`);
  throw new Error(said.split('\n').slice(-2).join(' ') || `go ended with ${String(code)}`);
}
