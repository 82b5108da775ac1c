import { execFile } from 'node:child_process';
import { accessSync, constants, existsSync, statSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { reasonOf, TemporalNotFoundError } from './errors.ts';
import { buildTemporal } from './temporal-build.ts';
import { downloadTemporal } from './temporal-download.ts';

const run = promisify(execFile);

/** The newest version that `go install` accepts. */
export const TEMPORAL_VERSION = '1.5.1';

/** A Temporal CLI that runs. */
export interface TemporalCli {
  path: string;
  /** Of the server inside, such as `1.29.1`. */
  version: string;
}

/** Where to look for the Temporal CLI. */
export interface TemporalCliOptions {
  /** A CLI that the user named. */
  temporalCli?: string | undefined;
  /** Holds `temporal-cli-1.5.1/temporal` once it was downloaded or built. */
  cacheDir: string;
  /** Folders to look for `temporal` and `go` in, as in PATH. */
  searchPath: string;
  onProgress: (line: string) => void;
}

/** One way to a CLI: gives its path, or throws with the reason why not. */
interface Way {
  name: string;
  slow?: boolean;
  find: () => Promise<string>;
}

/** Nothing was tried, since nothing is there. */
class AbsentError extends Error {}

/**
 * The first Temporal CLI that runs: the one named, `temporal` on PATH, the cache, the SDK's download (into the
 * cache), a build from source with Go (into the cache). Each way that fails is told in one line.
 * @throws TemporalNotFoundError that lists every way and why it failed.
 */
export async function findTemporalCli(options: TemporalCliOptions): Promise<TemporalCli> {
  const failures: { way: string; reason: string }[] = [];
  // That nothing is on PATH is no news while the cache has it: such lines come out before a slow way begins.
  let untold: string[] = [];
  for (const way of waysOf(options)) {
    if (way.slow) {
      untold.forEach((line) => options.onProgress(line));
      untold = [];
    }
    try {
      const path = await way.find();
      return { path, version: await versionOf(path) };
    } catch (error) {
      const reason = oneLine(reasonOf(error));
      failures.push({ way: way.name, reason });
      const line = `Temporal: ${way.name}: ${reason}`;
      if (error instanceof AbsentError) untold.push(line);
      else options.onProgress(line);
    }
  }
  const list = failures.map(({ way, reason }) => `  - ${way}: ${reason}`).join('\n');
  throw new TemporalNotFoundError(
    `No Temporal server can be had. Tried, in this order:\n${list}\n` +
      'Install the Temporal CLI (https://docs.temporal.io/cli) or Go, or set TEMPORAL_ADDRESS to a Temporal of your own.',
    { ways: failures },
  );
}

function waysOf({ temporalCli, cacheDir, searchPath, onProgress }: TemporalCliOptions): Way[] {
  const directory = join(cacheDir, `temporal-cli-${TEMPORAL_VERSION}`);
  const cached = join(directory, 'temporal');
  const ways: Way[] = [
    { name: 'temporal on PATH', find: () => Promise.resolve(onPath('temporal', searchPath)) },
    { name: `cache (${cached})`, find: () => Promise.resolve(cachedAt(cached)) },
    {
      name: `download of ${TEMPORAL_VERSION} by the Temporal SDK`,
      slow: true,
      find: () => downloadTemporal({ version: TEMPORAL_VERSION, cacheDir, target: cached, onProgress }),
    },
    {
      name: `go install github.com/temporalio/cli/cmd/temporal@v${TEMPORAL_VERSION}`,
      slow: true,
      find: () =>
        buildTemporal({
          go: onPath('go', searchPath),
          version: TEMPORAL_VERSION,
          cacheDir,
          target: cached,
          onProgress,
        }),
    },
  ];
  if (temporalCli === undefined) return ways;
  return [
    { name: `PERDURE_TEMPORAL_CLI (${temporalCli})`, find: () => Promise.resolve(named(temporalCli)) },
    ...ways,
  ];
}

async function versionOf(path: string): Promise<string> {
  const { stdout } = await run(path, ['--version'], { timeout: 30_000 });
  return /Server ([^\s,)]+)/.exec(stdout)?.[1] ?? stdout.trim();
}

function named(path: string): string {
  if (!existsSync(path)) throw new Error('there is no such file');
  return path;
}

function cachedAt(path: string): string {
  if (!existsSync(path)) throw new AbsentError('not there');
  return path;
}

function onPath(name: string, searchPath: string): string {
  for (const folder of searchPath.split(delimiter)) {
    if (folder !== '' && isExecutable(join(folder, name))) return join(folder, name);
  }
  throw new AbsentError(`no '${name}' on PATH`);
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    // Not there, or not ours to run: look in the next folder.
    return false;
  }
}

function oneLine(text: string): string {
  return text.replaceAll(/\s+/g, ' ').trim().slice(0, 300);
}
