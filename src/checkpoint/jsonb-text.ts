import { InvalidInputError } from '../contracts/errors.ts';

/**
 * Postgres' `text` and `jsonb` can't hold NUL, and half a surrogate pair becomes U+FFFD on the way. Such characters
 * are written as U+E000 (private use) and four hex digits, U+E000 itself as two of it, and read back the same way.
 * Text without them is stored as it is, so filters and other readers see it unchanged.
 */
const ESCAPE = '\ue000';
// With `u`, \p{Cs} is a surrogate without its other half.
// oxlint-disable-next-line no-control-regex -- NUL is what it looks for
const NEEDS_ESCAPE = /[\u0000\ue000\p{Cs}]/u;
const ALL_NEEDING_ESCAPE = new RegExp(NEEDS_ESCAPE, 'gu');
const ESCAPED = /\ue000(\ue000|[0-9a-f]{4})/g;
/** In text from JSON.stringify, which writes NUL and half surrogates as escapes in lower case. */
const JSON_NEEDS_ESCAPE = /\\u0000|\\ud[89a-f]|\ue000/;

export function escapeText(text: string): string {
  if (!NEEDS_ESCAPE.test(text)) return text;
  return text.replaceAll(ALL_NEEDING_ESCAPE, (unit) =>
    unit === ESCAPE ? ESCAPE + ESCAPE : ESCAPE + unit.charCodeAt(0).toString(16).padStart(4, '0'),
  );
}

export function unescapeText(text: string): string {
  if (!text.includes(ESCAPE)) return text;
  return text.replaceAll(ESCAPED, (_, code: string) =>
    code === ESCAPE ? ESCAPE : String.fromCharCode(Number.parseInt(code, 16)),
  );
}

/** A tree as text that a `jsonb` column takes. */
export function toJsonbText(tree: unknown): string {
  const text = JSON.stringify(tree);
  return JSON_NEEDS_ESCAPE.test(text) ? JSON.stringify(mapStrings(tree, escapeText)) : text;
}

/** The tree that `toJsonbText` was given, from the column's text. */
export function fromJsonbText(text: string): unknown {
  const tree: unknown = JSON.parse(text);
  return text.includes(ESCAPE) ? mapStrings(tree, unescapeText) : tree;
}

function mapStrings(value: unknown, change: (text: string) => string): unknown {
  if (typeof value === 'string') return change(value);
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map((item) => mapStrings(item, change));
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [change(key), mapStrings(inner, change)]),
  );
}

/**
 * Ids are compared and ordered by Postgres, so they are stored as they are or not at all.
 * @throws InvalidInputError when `id` is no string, or one that Postgres can't hold.
 */
export function checkId(name: string, id: unknown): string {
  if (typeof id !== 'string')
    throw new InvalidInputError(`'${name}' is missing from the config's configurable.`, { name });
  if (NEEDS_ESCAPE.test(id.replaceAll(ESCAPE, '')))
    throw new InvalidInputError(`'${name}' can't hold NUL or half a surrogate pair.`, { name });
  return id;
}
