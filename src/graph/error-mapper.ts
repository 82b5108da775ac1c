import { isPerdureError } from '../contracts/errors.ts';
import { retryAfterOf, statusOf } from '../operations/http-error.ts';
import { part } from '../operations/part.ts';

/**
 * Why an error is tried again, or not:
 * - `marked`: the error says so itself.
 * - `bug`: of the code; trying again runs the same code.
 * - `refused`: the far side, a schema or the runtime said no to this very input.
 * - `unauthorized`: 401, 403, 407: credentials are missing or wrong.
 * - `quota`: a paid quota is used up; waiting a moment does not help.
 * - `limit`: of the graph, such as its recursion limit.
 * - `cancelled`: the work was called off.
 * - `rate_limited`, `unavailable`, `connection`, `timeout`, `conflict`: may pass.
 * - `unclassified`: nothing is known of it, so it is tried again.
 */
export type ErrorReason =
  | 'marked'
  | 'bug'
  | 'refused'
  | 'unauthorized'
  | 'quota'
  | 'limit'
  | 'cancelled'
  | 'rate_limited'
  | 'unavailable'
  | 'connection'
  | 'timeout'
  | 'conflict'
  | 'unclassified';

export type ErrorClass = {
  retryable: boolean;
  reason: ErrorReason;
  /** How long the far side asks to be left alone, in ms. */
  retryAfterMs?: number;
};

/** How far a chain of causes is followed. */
const MAX_DEPTH = 8;

/**
 * Whether what failed with `error` may be tried again: by the error's own mark, its class, its HTTP status, its code,
 * else by its cause. An error that nothing is known of may be, as LangGraph's retry policy has it by default.
 * Of several errors each has to allow it.
 *
 * @param now For `retry-after` dates. Default: the clock.
 */
export function classifyError(error: unknown, now: number = Date.now()): ErrorClass {
  return classify(error, now, 0) ?? UNCLASSIFIED;
}

const UNCLASSIFIED: ErrorClass = { retryable: true, reason: 'unclassified' };

/** Undefined when neither the error nor its causes tell anything. */
function classify(error: unknown, now: number, depth: number): ErrorClass | undefined {
  if (typeof error !== 'object' || error === null || depth > MAX_DEPTH) return undefined;
  const inner = (): ErrorClass | undefined =>
    errorsOf(error, now, depth) ?? classify(part(error, 'cause'), now, depth + 1);
  const marked = mark(error);
  const own: ErrorClass | undefined =
    marked === undefined
      ? (byStatus(error) ?? byCode(error) ?? byClass(error, inner))
      : { retryable: marked, reason: 'marked' };
  const found = own ?? inner();
  const after = retryAfterOf(error, now) ?? retryDelayOf(error) ?? (own && inner()?.retryAfterMs);
  if (after === undefined || found?.retryable === false) return found;
  return { ...(found ?? UNCLASSIFIED), retryAfterMs: after };
}

/** LangChain's mark, which any copy of its core reads and sets. */
const LANGCHAIN_RETRYABLE = Symbol.for('langchain.errors.retryable');

/** What the error says of itself: ours and anybody's `retryable`, LangChain's stamp, Temporal's and AWS' fields. */
function mark(error: object): boolean | undefined {
  const own = part(error, 'retryable');
  if (typeof own === 'boolean') return own;
  const stamp: unknown = Object.getOwnPropertyDescriptor(error, LANGCHAIN_RETRYABLE)?.value;
  if (typeof stamp === 'boolean') return stamp;
  const final = part(error, 'nonRetryable');
  if (typeof final === 'boolean') return !final;
  return typeof part(error, '$retryable') === 'object' ? true : undefined;
}

/** Temporal's ApplicationFailure, where it is a number. */
function retryDelayOf(error: object): number | undefined {
  const delay = part(error, 'nextRetryDelay');
  return typeof delay === 'number' && delay >= 0 ? delay : undefined;
}

const STATUS: Readonly<Record<number, ErrorReason>> = {
  401: 'unauthorized',
  403: 'unauthorized',
  407: 'unauthorized',
  408: 'timeout',
  // What a far side answers while an earlier request with the same idempotency key is still at work.
  409: 'conflict',
  425: 'unavailable',
  429: 'rate_limited',
  // A proxy's note that its client went away.
  499: 'timeout',
  501: 'refused',
  505: 'refused',
};

const TRANSIENT: ReadonlySet<ErrorReason> = new Set([
  'rate_limited',
  'unavailable',
  'connection',
  'timeout',
  'conflict',
]);

function because(reason: ErrorReason): ErrorClass {
  return { retryable: TRANSIENT.has(reason), reason };
}

function byStatus(error: object): ErrorClass | undefined {
  const status = statusOf(error);
  if (status === undefined || status < 400) return undefined;
  if (status === 429 && isQuota(error)) return because('quota');
  return because(STATUS[status] ?? (status >= 500 ? 'unavailable' : 'refused'));
}

function isQuota(error: object): boolean {
  return [part(error, 'code'), part(error, 'error.code'), part(error, 'error.error.code')].includes(
    'insufficient_quota',
  );
}

const CODES: Readonly<Record<string, ErrorReason>> = {
  ECONNRESET: 'connection',
  ECONNREFUSED: 'connection',
  EPIPE: 'connection',
  ENOTFOUND: 'connection',
  EAI_AGAIN: 'connection',
  EHOSTUNREACH: 'connection',
  EHOSTDOWN: 'connection',
  ENETUNREACH: 'connection',
  ENETDOWN: 'connection',
  ENETRESET: 'connection',
  EADDRNOTAVAIL: 'connection',
  ERR_NETWORK: 'connection',
  ERR_STREAM_PREMATURE_CLOSE: 'connection',
  UND_ERR_SOCKET: 'connection',
  UND_ERR_CONNECT_TIMEOUT: 'timeout',
  UND_ERR_HEADERS_TIMEOUT: 'timeout',
  UND_ERR_BODY_TIMEOUT: 'timeout',
  ETIMEDOUT: 'timeout',
  ESOCKETTIMEDOUT: 'timeout',
  ECONNABORTED: 'cancelled',
  ERR_CANCELED: 'cancelled',
  insufficient_quota: 'quota',
  ENOENT: 'bug',
  EACCES: 'bug',
  EPERM: 'bug',
  MODULE_NOT_FOUND: 'bug',
  ERR_MODULE_NOT_FOUND: 'bug',
  ERR_ASSERTION: 'bug',
  CERT_HAS_EXPIRED: 'refused',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'refused',
  SELF_SIGNED_CERT_IN_CHAIN: 'refused',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'refused',
  ERR_TLS_CERT_ALTNAME_INVALID: 'refused',
  // Ours.
  STORAGE_UNAVAILABLE: 'unavailable',
  TEMPORAL_UNAVAILABLE: 'unavailable',
};

/** Of Postgres: connection, resources and shut-down; serialisation failures and deadlocks; data that it refuses. */
const SQLSTATE: readonly [RegExp, ErrorReason][] = [
  [/^(08...|53...|57P0.|58...)$/, 'unavailable'],
  [/^(40001|40P01|55P03)$/, 'conflict'],
  [/^(22|23|42)...$/, 'refused'],
  [/^28...$/, 'unauthorized'],
];

/** gRPC's numbers. */
const GRPC: Readonly<Record<number, ErrorReason>> = {
  1: 'cancelled',
  3: 'refused',
  4: 'timeout',
  5: 'refused',
  6: 'refused',
  7: 'unauthorized',
  8: 'rate_limited',
  9: 'refused',
  10: 'conflict',
  11: 'refused',
  12: 'refused',
  14: 'unavailable',
  16: 'unauthorized',
};

function byCode(error: object): ErrorClass | undefined {
  const code = part(error, 'code');
  if (typeof code === 'number') {
    const reason = typeof part(error, 'metadata') === 'object' ? GRPC[code] : undefined;
    return reason && because(reason);
  }
  if (typeof code !== 'string') return undefined;
  // axios has one code for a request that took too long and for one that was called off.
  if (code === 'ECONNABORTED' && /timeout/i.test(messageOf(error))) return because('timeout');
  const reason = Object.hasOwn(CODES, code) ? CODES[code] : undefined;
  if (reason !== undefined) return because(reason);
  const state = 'severity' in error ? SQLSTATE.find(([pattern]) => pattern.test(code)) : undefined;
  return state && because(state[1]);
}

const CLASSES: Readonly<Record<string, ErrorReason>> = {
  TypeError: 'bug',
  ReferenceError: 'bug',
  SyntaxError: 'bug',
  RangeError: 'bug',
  EvalError: 'bug',
  URIError: 'bug',
  AssertionError: 'bug',
  ZodError: 'bug',
  $ZodError: 'bug',
  GraphValueError: 'bug',
  InvalidUpdateError: 'bug',
  EmptyInputError: 'bug',
  EmptyChannelError: 'bug',
  MultipleSubgraphError: 'bug',
  MultipleSubgraphsError: 'bug',
  UnreachableNodeError: 'bug',
  StateGraphInputError: 'bug',
  MultipleToolsBoundError: 'bug',
  ToolInputParsingException: 'refused',
  GraphRecursionError: 'limit',
  AbortError: 'cancelled',
  APIUserAbortError: 'cancelled',
  CanceledError: 'cancelled',
  InsufficientQuotaError: 'quota',
  TimeoutError: 'timeout',
  NodeTimeoutError: 'timeout',
  APIConnectionError: 'connection',
  APIConnectionTimeoutError: 'timeout',
};

/** What `fetch` calls a TypeError though it is the connection's. */
const FETCH_FAILED = /^(fetch failed|failed to fetch|terminated|network error|load failed)$/i;

function byClass(error: object, inner: () => ErrorClass | undefined): ErrorClass | undefined {
  const name = part(error, 'name');
  const message = messageOf(error);
  if (name === 'TypeError' && FETCH_FAILED.test(message)) return inner() ?? because('connection');
  const reason = typeof name === 'string' && Object.hasOwn(CLASSES, name) ? CLASSES[name] : undefined;
  // A wrapper may have taken its cause's name, as LangChain's MiddlewareError does.
  if (reason !== undefined) return reason === 'bug' ? (inner() ?? because(reason)) : because(reason);
  if (/^(Cancel|AbortError)/.test(message)) return because('cancelled');
  // Our own errors were thrown on purpose: what they were made of may tell more, else the answer is no.
  // The one about an unknown operation means that the far side could not be asked just now.
  if (isPerdureError(error))
    return inner() ?? because(error.code === 'OPERATION_UNKNOWN' ? 'unavailable' : 'refused');
  return undefined;
}

function errorsOf(error: object, now: number, depth: number): ErrorClass | undefined {
  const errors = part(error, 'errors');
  if (!(error instanceof AggregateError) || !Array.isArray(errors) || errors.length === 0) return undefined;
  const all = errors.map((each: unknown) => classify(each, now, depth + 1) ?? UNCLASSIFIED);
  const final = all.find(({ retryable }) => !retryable);
  if (final) return final;
  const first = all.find(({ reason }) => reason !== 'unclassified') ?? UNCLASSIFIED;
  const waits = all.flatMap(({ retryAfterMs }) => (retryAfterMs === undefined ? [] : [retryAfterMs]));
  return waits.length === 0 ? first : { ...first, retryAfterMs: Math.max(...waits) };
}

function messageOf(error: object): string {
  const message = part(error, 'message');
  return typeof message === 'string' ? message : '';
}
