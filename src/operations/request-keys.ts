/** Methods that change nothing on the far side (RFC 9110, section 9.2.1), so that they need no key. */
const SAFE_METHODS = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE']);

export function isSafeMethod(method: string): boolean {
  return SAFE_METHODS.has(method.toUpperCase());
}

/** One request of an operation, as far as its key goes. */
export type KeyedRequest = {
  readonly key: string;
  /** Method, URL and body. */
  readonly fingerprint: string;
  /** `refused`: the far side said no, or was not reached, so that this request had no effect. */
  state: 'open' | 'answered' | 'failed' | 'refused';
};

/**
 * The idempotency keys of an operation's requests. The first request to a host carries the operation's id, the
 * second `<id>:2` and so on, in the order of the calls, since one key must not serve two requests. A request that
 * repeats one that failed carries that one's key again: it is the same intention.
 */
export class RequestKeys {
  readonly #operationId: string;
  readonly #byOrigin = new Map<string, KeyedRequest[]>();

  constructor(operationId: string) {
    this.#operationId = operationId;
  }

  begin(origin: string, fingerprint: string): KeyedRequest {
    let requests = this.#byOrigin.get(origin);
    if (requests === undefined) this.#byOrigin.set(origin, (requests = []));
    const repeated = requests.find(
      (each) => each.fingerprint === fingerprint && (each.state === 'failed' || each.state === 'refused'),
    );
    if (repeated !== undefined) {
      // Once it may have happened, a later refusal doesn't prove that it didn't.
      if (repeated.state === 'refused') repeated.state = 'open';
      return repeated;
    }
    const count = requests.length + 1;
    const key = count === 1 ? this.#operationId : `${this.#operationId}:${count}`;
    const request: KeyedRequest = { key, fingerprint, state: 'open' };
    requests.push(request);
    return request;
  }

  /** Whether a request went out that was not refused: then an error of the operation proves nothing. */
  mayHaveHadEffect(): boolean {
    return [...this.#byOrigin.values()].flat().some((request) => request.state !== 'refused');
  }
}
