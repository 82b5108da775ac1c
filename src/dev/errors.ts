import { PerdureError } from '../contracts/errors.ts';

/** A server could not be started, or runs but does not answer. The message ends with the last lines of its log. */
export class ServerStartError extends PerdureError {
  constructor(message: string, details: Record<string, unknown> = {}, options?: ErrorOptions) {
    super('SERVER_START_FAILED', message, details, options);
  }
}

/** A server did not go away, or belongs to another user. */
export class ServerStopError extends PerdureError {
  constructor(message: string, details: Record<string, unknown> = {}, options?: ErrorOptions) {
    super('SERVER_STOP_FAILED', message, details, options);
  }
}

/** No way led to a Temporal CLI. `details.ways` lists each way and why it failed. */
export class TemporalNotFoundError extends PerdureError {
  constructor(message: string, details: Record<string, unknown> = {}) {
    super('TEMPORAL_NOT_FOUND', message, details);
  }
}

/** Another process has been starting or stopping servers in this home for too long. */
export class HomeLockedError extends PerdureError {
  constructor(message: string, details: Record<string, unknown> = {}) {
    super('HOME_LOCKED', message, details);
  }
}

/** The home folder can't be written, or holds files of another user. */
export class HomeUnusableError extends PerdureError {
  constructor(message: string, details: Record<string, unknown> = {}, options?: ErrorOptions) {
    super('HOME_UNUSABLE', message, details, options);
  }
}

/** The message of whatever was thrown. */
export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** The system's error code (`ENOENT`, `EACCES`, ...), if it has one. */
export function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}
