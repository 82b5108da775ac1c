import { createHash } from 'node:crypto';
import { runningOperation, type RunningOperation } from './current-operation.ts';
import { isRefusal, provesNothingHappened } from './proof.ts';
import { isSafeMethod } from './request-keys.ts';

const IDEMPOTENCY_KEY = 'Idempotency-Key';

/** Holds, on the installed function, the one that it wraps. */
const wrapped = Symbol.for('perdure.operation-fetch');

type InstalledFetch = typeof fetch & { [wrapped]?: typeof fetch };

/**
 * `fetch` for code inside an operation: requests other than GET, HEAD, OPTIONS and TRACE carry
 * `Idempotency-Key: <operation id>`, unless they have that header, and every request ends when the operation is
 * told to stop. The second request to the same host carries `<operation id>:2` and so on, in the order of the
 * calls; a repetition of one that failed carries the same key again. Outside of an operation it is plain `fetch`.
 */
export const operationFetch: typeof fetch = (input, init) => {
  const operation = runningOperation();
  return operation === undefined ? plainFetch()(input, init) : fetchAs(operation, input, init);
};

/** `fetch` that belongs to `operation` wherever it is called. */
export function fetchOf(operation: () => RunningOperation): typeof fetch {
  return (input, init) => fetchAs(operation(), input, init);
}

/**
 * Makes the process's `fetch` carry the ids of operations, so that tools which know nothing of perdure do. For
 * workers, once at their start; a second call changes nothing.
 * @returns a function that puts the former `fetch` back, unless somebody else has replaced it since.
 */
export function installOperationFetch(): () => void {
  const former: InstalledFetch = globalThis.fetch;
  if (former[wrapped] !== undefined) return () => undefined;
  const installed: InstalledFetch = (input, init) => {
    const operation = runningOperation();
    return operation === undefined ? former(input, init) : fetchAs(operation, input, init, former);
  };
  installed[wrapped] = former;
  globalThis.fetch = installed;
  return () => {
    if (globalThis.fetch === installed) globalThis.fetch = former;
  };
}

/** Never the installed one, which would count the request twice. */
function plainFetch(): typeof fetch {
  const current: InstalledFetch = globalThis.fetch;
  return current[wrapped] ?? current;
}

type FetchInput = Parameters<typeof fetch>[0];
type FetchInit = Parameters<typeof fetch>[1];

async function fetchAs(
  operation: RunningOperation,
  input: FetchInput,
  init: FetchInit,
  plain = plainFetch(),
): Promise<Response> {
  const request = input instanceof Request ? input : undefined;
  const method = init?.method ?? request?.method ?? 'GET';
  const signals = [operation.signal, init?.signal ?? request?.signal].filter(
    (signal) => signal !== undefined && signal !== null,
  );
  const signal = AbortSignal.any(signals);
  if (isSafeMethod(method)) return plain(input, { ...init, signal });
  const url = new URL(input instanceof Request ? input.url : input);
  const body = init?.body ?? (request?.body ? await request.clone().arrayBuffer() : undefined);
  const keyed = operation.requests.begin(url.origin, fingerprint(method, url, body));
  const headers = new Headers(init?.headers ?? request?.headers);
  if (!headers.has(IDEMPOTENCY_KEY)) headers.set(IDEMPOTENCY_KEY, keyed.key);
  try {
    const response = await plain(input, { ...init, headers, signal });
    const earlier = keyed.state;
    if (response.ok) keyed.state = 'answered';
    else keyed.state = isRefusal(response.status) && earlier === 'open' ? 'refused' : 'failed';
    return response;
  } catch (error) {
    keyed.state = provesNothingHappened(error) && keyed.state === 'open' ? 'refused' : 'failed';
    throw error;
  }
}

/** Bodies that can be read only once make a request unlike any other. */
function fingerprint(method: string, url: URL, body: unknown): string {
  const hash = createHash('sha256').update(`${method.toUpperCase()}\n${url.href}\n`);
  if (typeof body === 'string') hash.update(body);
  else if (body instanceof URLSearchParams) hash.update(body.toString());
  else if (body instanceof ArrayBuffer) hash.update(new Uint8Array(body));
  else if (ArrayBuffer.isView(body))
    hash.update(new Uint8Array(body.buffer, body.byteOffset, body.byteLength));
  else if (body !== undefined && body !== null) hash.update(`once ${(unread += 1)}`);
  return hash.digest('hex');
}

let unread = 0;
