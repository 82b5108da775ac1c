import { closeSync, existsSync, openSync, readFileSync, renameSync, statSync } from 'node:fs';

const ROTATE_BYTES = 20 * 1024 * 1024;

/** A server's log file, opened for one start of it. */
export interface ServerLog {
  path: string;
  /** File descriptor to hand to the server as stdout and stderr. */
  fd: number;
  /** Size before this start: what comes after is this start's. */
  offset: number;
}

/** Opens the log for appending; a log over 20 MB is first moved to `<path>.old`. */
export function openServerLog(path: string): ServerLog {
  if (existsSync(path) && statSync(path).size > ROTATE_BYTES) renameSync(path, `${path}.old`);
  const offset = existsSync(path) ? statSync(path).size : 0;
  return { path, fd: openSync(path, 'a', 0o600), offset };
}

export function closeServerLog(log: ServerLog): void {
  closeSync(log.fd);
}

/** What the server wrote since this start. */
export function textOf(log: Pick<ServerLog, 'path' | 'offset'>): string {
  return readFileSync(log.path).subarray(log.offset).toString('utf8');
}

/** The last lines of this start, for an error message. */
export function tailOf(log: Pick<ServerLog, 'path' | 'offset'>, lines = 12): string {
  const text = textOf(log).trimEnd();
  if (text === '') return `(${log.path} is empty)`;
  return `The last lines of ${log.path}:\n${text
    .split('\n')
    .slice(-lines)
    .map((line) => `  ${line.slice(0, 400)}`)
    .join('\n')}`;
}
