import { execFile } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, readlinkSync, realpathSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { codeOf, ServerStopError } from './errors.ts';

const run = promisify(execFile);

/** A process that can be told from a later one with the same pid: `identity` says when it was started. */
export interface ProcessRecord {
  pid: number;
  identity: string;
}

/** One step of stopping: send `signal`, then wait up to `waitMs` for the process to go. */
export interface StopStep {
  signal: NodeJS.Signals;
  waitMs: number;
}

/**
 * What tells this process from any other that ever has its pid: boot id and start tick on Linux, the start
 * time elsewhere. Undefined when no such process lives; a zombie doesn't.
 */
export async function identityOf(pid: number): Promise<string | undefined> {
  return process.platform === 'linux' ? linuxIdentity(pid) : await psIdentity(pid);
}

/** The record of a process that lives now, or undefined. */
export async function recordOf(pid: number): Promise<ProcessRecord | undefined> {
  const identity = await identityOf(pid);
  return identity === undefined ? undefined : { pid, identity };
}

/** Whether exactly the recorded process, and not a later one with its pid, lives. */
export async function isAlive(record: ProcessRecord | undefined): Promise<boolean> {
  return record !== undefined && (await identityOf(record.pid)) === record.identity;
}

/** Processes whose working directory is this one and, if it is given, that have exactly this argument. */
export async function findProcesses(directory: string, argument?: string): Promise<ProcessRecord[]> {
  if (!existsSync(directory)) return [];
  // The system names a process's directory by its real path.
  const real = realpathSync(directory);
  const pids = process.platform === 'linux' ? linuxPids(real, argument) : await lsofPids(real, argument);
  const records = await Promise.all(pids.map(recordOf));
  return records.filter((record) => record !== undefined);
}

/**
 * Stops the recorded process, step by step, and returns when it is gone. Does nothing when it no longer lives.
 * @throws ServerStopError when it belongs to another user or outlives the last step.
 */
export async function stopProcess(
  name: string,
  record: ProcessRecord,
  steps: readonly StopStep[],
): Promise<void> {
  for (const { signal, waitMs } of steps) {
    if (!(await isAlive(record))) return;
    try {
      process.kill(record.pid, signal);
      // A suspended process would take the signal only once it goes on.
      process.kill(record.pid, 'SIGCONT');
    } catch (error) {
      if (codeOf(error) === 'ESRCH') return;
      throw new ServerStopError(
        `${name} (pid ${record.pid}) belongs to another user; stop it as the user who started it.`,
        { pid: record.pid },
        { cause: error },
      );
    }
    if (await isGoneWithin(record, waitMs)) return;
  }
  throw new ServerStopError(`${name} (pid ${record.pid}) does not stop.`, { pid: record.pid });
}

async function isGoneWithin(record: ProcessRecord, waitMs: number): Promise<boolean> {
  const end = Date.now() + waitMs;
  while (await isAlive(record)) {
    if (Date.now() > end) return false;
    await delay(50);
  }
  return true;
}

function linuxIdentity(pid: number): string | undefined {
  const stat = readProc(`/proc/${pid}/stat`);
  if (stat === undefined) return undefined;
  // The second field is the command in brackets and may hold spaces and brackets itself.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const [state] = fields;
  if (state === 'Z' || state === 'X') return undefined;
  const bootId = readProc('/proc/sys/kernel/random/boot_id')?.trim() ?? 'boot';
  return `${bootId}/${fields[19] ?? ''}`;
}

function linuxPids(directory: string, argument: string | undefined): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => unlessHidden(() => readlinkSync(`/proc/${pid}/cwd`)) === directory)
    .filter(
      (pid) => argument === undefined || readProc(`/proc/${pid}/cmdline`)?.split('\0').includes(argument),
    )
    .map(Number);
}

function readProc(path: string): string | undefined {
  return unlessHidden(() => readFileSync(path, 'utf8'));
}

/** What `read` gives, or undefined when its process is gone or hidden from this user. */
function unlessHidden(read: () => string): string | undefined {
  try {
    return read();
  } catch (error) {
    if (['ENOENT', 'ESRCH', 'EACCES', 'EPERM'].includes(codeOf(error) ?? '')) return undefined;
    throw error;
  }
}

async function psIdentity(pid: number): Promise<string | undefined> {
  const lines = await list('ps', ['-o', 'stat=,lstart=', '-p', String(pid)]);
  const [, state, started] = /^\s*(\S+)\s+(.*\S)\s*$/.exec(lines[0] ?? '') ?? [];
  return state === undefined || state.startsWith('Z') ? undefined : started;
}

async function lsofPids(directory: string, argument: string | undefined): Promise<number[]> {
  // One process's lines: `p<pid>`, then `n<its working directory>`.
  const lines = await list('lsof', ['-a', '-d', 'cwd', '-Fpn']);
  const found: number[] = [];
  let pid = 0;
  for (const line of lines) {
    if (line.startsWith('p')) pid = Number(line.slice(1));
    if (line !== `n${directory}`) continue;
    const [command = ''] = await list('ps', ['-ww', '-o', 'command=', '-p', String(pid)]);
    if (argument === undefined || `${command} `.includes(` ${argument} `)) found.push(pid);
  }
  return found;
}

/** The lines that the command prints. */
async function list(command: string, args: string[]): Promise<string[]> {
  try {
    const { stdout } = await run(command, args, { env: { ...process.env, LC_ALL: 'C', TZ: 'UTC' } });
    return stdout.split('\n').filter((line) => line.trim() !== '');
  } catch (error) {
    // Both commands end with 1 when no process matches; anything else (a missing command) must be seen.
    if (error instanceof Error && 'code' in error && error.code === 1) return [];
    throw error;
  }
}
