import { part } from './part.ts';

/**
 * What an error of some HTTP client tells of the reply: fetch wrappers, axios, the SDKs of model providers and
 * LangChain's clients all put it elsewhere.
 */

/** The reply's status, 100 to 599, from the error or its `response`. */
export function statusOf(error: object): number | undefined {
  const response = part(error, 'response');
  const found = [error, response]
    .flatMap((each) => [part(each, 'status'), part(each, 'statusCode')])
    .filter((each) => typeof each === 'number' || typeof each === 'string')
    .map(Number)
    .find((each) => Number.isInteger(each) && each >= 100 && each <= 599);
  return found;
}

/** A header of the reply, whatever holds it: a `Headers`, a plain object in any case, axios' own. */
export function replyHeader(error: object, name: string): string | undefined {
  const response = part(error, 'response');
  for (const headers of [
    part(error, 'headers'),
    part(response, 'headers'),
    part(error, 'responseHeaders'),
    part(error, '$response.headers'), // AWS
  ]) {
    const value = header(headers, name);
    if (value !== undefined) return value;
  }
  return undefined;
}

/**
 * How long the far side asks to be left alone, in ms: `retry-after-ms`, `retry-after` as seconds or as an HTTP date,
 * or what a client made of it (`retryAfterMs`, and `retryAfter` in seconds).
 */
export function retryAfterOf(error: object, now: number): number | undefined {
  const inMs = positive(replyHeader(error, 'retry-after-ms')) ?? positive(part(error, 'retryAfterMs'));
  if (inMs !== undefined) return inMs;
  const given = replyHeader(error, 'retry-after')?.trim();
  const seconds = positive(given) ?? positive(part(error, 'retryAfter'));
  if (seconds !== undefined) return seconds * 1_000;
  // Date.parse takes nearly anything for a date; one has the name of its month, or ISO's T.
  const date = given !== undefined && /[a-z]/i.test(given) ? Date.parse(given) : Number.NaN;
  return Number.isNaN(date) ? undefined : Math.max(0, date - now);
}

function header(headers: unknown, name: string): string | undefined {
  if (typeof headers !== 'object' || headers === null) return undefined;
  if ('get' in headers && typeof headers.get === 'function') {
    const value: unknown = (headers as { get(name: string): unknown }).get(name);
    return text(value);
  }
  const entry = Object.entries(headers).find(([key]) => key.toLowerCase() === name);
  return text(entry?.[1]);
}

function text(value: unknown): string | undefined {
  const first: unknown = Array.isArray(value) ? value[0] : value;
  return typeof first === 'string' || typeof first === 'number' ? String(first) : undefined;
}

function positive(value: unknown): number | undefined {
  if (typeof value !== 'number' && (typeof value !== 'string' || value.trim() === '')) return undefined;
  const number = Number(value);
  return Number.isFinite(number) && number >= 0 ? number : undefined;
}
