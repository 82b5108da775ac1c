import { isPerdureError, StorageUnavailableError } from '../contracts/errors.ts';

/**
 * SQLSTATE classes and codes that speak of the connection or the server, not of the statement: 08 connection,
 * 53 insufficient resources, 57P0x shutdown and start-up, 25006 a standby that became read-only.
 * Source: Postgres manual, appendix A.
 */
const UNAVAILABLE_SQLSTATE = /^(08...|53...|57P0[1-5]|25006)$/;

const UNAVAILABLE_NODE = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENOENT',
]);

/** What `pg` says when no connection of the pool became free in time; see its options for how long that is. */
const EXHAUSTED_MESSAGE = 'timeout exceeded when trying to connect';
/** And when a statement was not answered in time. */
const UNANSWERED_MESSAGE = 'Query read timeout';

/** What `pg` says, without a code, when a connection ends or can't be had in time. */
const UNAVAILABLE_MESSAGE =
  /Connection terminated|timeout exceeded when trying to connect|Query read timeout|Client has encountered a connection error|not queryable|Cannot use a pool after calling end/;

/** Whether the database could not be reached or went away, so that the same may work later. */
export function isUnavailable(error: unknown): boolean {
  if (isPerdureError(error, 'STORAGE_UNAVAILABLE')) return true;
  if (error instanceof AggregateError) return error.errors.some(isUnavailable);
  if (!(error instanceof Error)) return false;
  const code = 'code' in error && typeof error.code === 'string' ? error.code : undefined;
  if (code !== undefined) return UNAVAILABLE_SQLSTATE.test(code) || UNAVAILABLE_NODE.has(code);
  return UNAVAILABLE_MESSAGE.test(error.message);
}

/** Connection failures as StorageUnavailableError, a refused log-in with what to check, anything else as it is. */
export function storageError(error: unknown): unknown {
  if (isPerdureError(error)) return error;
  const said = error instanceof Error ? error.message : '';
  if (said === EXHAUSTED_MESSAGE)
    return new StorageUnavailableError(
      'No connection to Postgres became free in time: all of the pool were busy. Raise PERDURE_POOL_SIZE (and ' +
        "Postgres' max_connections with it), or lower PERDURE_MAX_CONCURRENT_SEGMENTS.",
      { reason: 'pool_exhausted' },
      { cause: error },
    );
  if (said === UNANSWERED_MESSAGE)
    return new StorageUnavailableError(
      'Postgres did not answer a statement in time, which may still take effect. Look for locks that are held and ' +
        'for its load, or raise PERDURE_STATEMENT_TIMEOUT_MS.',
      { reason: 'statement_timeout' },
      { cause: error },
    );
  if (isUnavailable(error))
    return new StorageUnavailableError(
      `Postgres can't be reached: ${describe(error)}. Check DATABASE_URL, or start a server with 'perdure up'.`,
      {},
      { cause: error },
    );
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  if (code === '28P01' || code === '28000')
    return new StorageUnavailableError(
      `Postgres refused the log-in: ${describe(error)}. Check the user and password in DATABASE_URL.`,
      { refused: true },
      { cause: error },
    );
  if (code === '3D000')
    return new StorageUnavailableError(
      `Postgres has no such database: ${describe(error)}. Create it, or correct DATABASE_URL.`,
      { refused: true },
      { cause: error },
    );
  return error;
}

function describe(error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map(describe).join('; ');
  if (!(error instanceof Error)) return String(error);
  return error.message || ('code' in error ? String(error.code) : error.name);
}
