import { closeSync, openSync, readFileSync, rmSync, statSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { codeOf, HomeLockedError, HomeUnusableError } from './errors.ts';
import { isAlive, recordOf, type ProcessRecord } from './processes.ts';

/** Longer than a build of Temporal from source takes, since its builder holds the lock. */
const WAIT_LIMIT_MS = 20 * 60_000;
const POLL_MS = 150;
/** A lock file without a readable holder is being written, unless it is older than this. */
const WRITING_MS = 5_000;

/**
 * Runs `work` while holding the home's lock, so that one process at a time starts or stops servers there.
 * Waits for a living holder, breaks the lock of a dead one.
 * @throws HomeLockedError when a living holder keeps it for over 20 minutes.
 */
export async function withHomeLock<T>(
  home: string,
  onProgress: (line: string) => void,
  work: () => Promise<T>,
): Promise<T> {
  const path = join(home, 'servers.lock');
  await takeLock(path, onProgress);
  try {
    return await work();
  } finally {
    rmSync(path, { force: true });
  }
}

async function takeLock(path: string, onProgress: (line: string) => void): Promise<void> {
  const self = await recordOf(process.pid);
  const content = JSON.stringify(self);
  const end = Date.now() + WAIT_LIMIT_MS;
  let told = false;
  while (!createExclusively(path, content)) {
    const holder = readHolder(path);
    if (await isStale(path, holder)) {
      await breakLock(path, content);
      continue;
    }
    if (Date.now() > end) {
      throw new HomeLockedError(
        `Process ${holder?.pid ?? '?'} holds ${path} and does not let go. Stop it, then try again.`,
        { pid: holder?.pid, path },
      );
    }
    if (!told && holder !== undefined) {
      onProgress(`waiting for process ${holder.pid}, which is starting or stopping the servers of this home`);
      told = true;
    }
    await delay(POLL_MS);
  }
}

/**
 * Removes a stale lock under a lock of its own: otherwise, of two processes that saw the same stale lock, the
 * slower one would remove the fresh lock of the faster one.
 */
async function breakLock(path: string, content: string): Promise<void> {
  const breaker = `${path}.break`;
  if (!createExclusively(breaker, content)) {
    if (await isStale(breaker, readHolder(breaker))) rmSync(breaker, { force: true });
    await delay(POLL_MS);
    return;
  }
  try {
    if (await isStale(path, readHolder(path))) rmSync(path, { force: true });
  } finally {
    rmSync(breaker, { force: true });
  }
}

function createExclusively(path: string, content: string): boolean {
  let file: number;
  try {
    file = openSync(path, 'wx', 0o600);
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return false;
    throw new HomeUnusableError(`${path} can't be written. Is the folder yours?`, { path }, { cause: error });
  }
  try {
    writeSync(file, content);
  } finally {
    closeSync(file);
  }
  return true;
}

function readHolder(path: string): ProcessRecord | undefined {
  try {
    const value: unknown = JSON.parse(readFileSync(path, 'utf8'));
    if (typeof value !== 'object' || value === null || !('pid' in value) || !('identity' in value))
      return undefined;
    const { pid, identity } = value;
    return typeof pid === 'number' && typeof identity === 'string' ? { pid, identity } : undefined;
  } catch (error) {
    if (error instanceof SyntaxError || codeOf(error) === 'ENOENT') return undefined;
    throw new HomeUnusableError(`${path} can't be read. Is the folder yours?`, { path }, { cause: error });
  }
}

async function isStale(path: string, holder: ProcessRecord | undefined): Promise<boolean> {
  if (holder !== undefined) return !(await isAlive(holder));
  try {
    return Date.now() - statSync(path).mtimeMs > WRITING_MS;
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return false;
    throw error;
  }
}
