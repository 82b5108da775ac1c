import { PerdureError } from '../contracts/errors.ts';
import { statusOf } from './http-error.ts';

/**
 * Thrown by a tool that knows that nothing happened: a check before the call failed, the far side said no in a way
 * of its own. The operation becomes `failed` and may run again.
 */
export class NotExecutedError extends PerdureError {
  constructor(message: string, details: Record<string, unknown> = {}, options?: ErrorOptions) {
    super('OPERATION_NOT_EXECUTED', message, details, options);
  }
}

/** Codes of a connection that was never made, so that no request went out. */
const NEVER_CONNECTED = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'UND_ERR_CONNECT_TIMEOUT']);

/** System calls that come before a connection: whatever failed in them, no request went out. */
const BEFORE_CONNECTION = new Set(['connect', 'getaddrinfo']);

/**
 * 4xx says that the far side refused, except: 408 (it or a proxy gave up waiting, perhaps after it had passed the
 * request on), 409 (what a far side answers while the first request with the same idempotency key is still at
 * work), 499 (a proxy's note that its client went away).
 */
const AMBIGUOUS_4XX = new Set([408, 409, 499]);

export function isRefusal(status: number): boolean {
  return status >= 400 && status <= 499 && !AMBIGUOUS_4XX.has(status);
}

/** How far a chain of causes is followed. */
const MAX_DEPTH = 8;

/**
 * Whether the error proves that the operation had no effect: {@link NotExecutedError}, a connection never made, or
 * a refusal by status. Anything else (a timeout, a reset, 5xx, a plain error) proves nothing.
 */
export function provesNothingHappened(error: unknown, depth = 0): boolean {
  if (typeof error !== 'object' || error === null || depth > MAX_DEPTH) return false;
  if (error instanceof AggregateError)
    return error.errors.length > 0 && error.errors.every((each) => provesNothingHappened(each, depth + 1));
  const code = 'code' in error ? error.code : undefined;
  if (code === 'OPERATION_NOT_EXECUTED') return true;
  if (typeof code === 'string' && NEVER_CONNECTED.has(code)) return true;
  if ('syscall' in error && typeof error.syscall === 'string' && BEFORE_CONNECTION.has(error.syscall))
    return true;
  const status = statusOf(error);
  if (status !== undefined) return isRefusal(status);
  // fetch() hides the connection's error in the cause of a TypeError, clients in theirs.
  return 'cause' in error && provesNothingHappened(error.cause, depth + 1);
}
