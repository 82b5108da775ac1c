import * as crypto from 'node:crypto';

/**
 * Large parts of a value are stored apart from it, once per thread, under the hash of what they hold: elements. A value
 * or an element that has some of its parts stored apart has the type `perdure-refs`; its bytes are the number of
 * references (4 bytes, the highest first), the references (20 bytes each), and JSON text that names them by their place.
 */
export type Element = {
  /** 40 hexadecimal digits; see `elementHash`. */
  hash: string;
  type: ElementType;
  text: string;
  /** The hashes of the elements that `text` refers to. */
  refs: readonly string[];
};

/** `text` is a long string as it stands, `perdure-json` an object or a piece of a list, `perdure-refs` one with references. */
export type ElementType = typeof PLAIN_TEXT_TYPE | 'perdure-json' | typeof REFS_TYPE;

export const REFS_TYPE = 'perdure-refs';
/** Tag of elements whose bytes are a string in UTF-8. */
export const PLAIN_TEXT_TYPE = 'text';

export const HASH_BYTES = 20;
const HASH_DIGITS = HASH_BYTES * 2;
/** Where the references begin. */
const HEAD_BYTES = 4;
/** The highest bit of a hash says whether the element refers to others; the reading statement goes by it. */
const HAS_REFS = 0x80;

export function elementOf(type: ElementType, text: string, refs: readonly string[]): Element {
  return { hash: elementHash(type, text, refs), type, text, refs };
}

/** The first 20 bytes of a SHA-256, but for one bit: set where the element has references. */
function elementHash(type: ElementType, text: string, refs: readonly string[]): string {
  const digest = crypto.hash('sha256', `${type} ${refs.join('')} ${text}`, 'hex');
  const first = Number.parseInt(digest.slice(0, 2), 16);
  const marked = refs.length > 0 ? first | HAS_REFS : first & ~HAS_REFS;
  return marked.toString(16).padStart(2, '0') + digest.slice(2, HASH_DIGITS);
}

/** What is stored of a text with references. */
export function pack(refs: readonly string[], text: string): Buffer {
  if (refs.length === 0) return Buffer.from(text);
  const head = Buffer.alloc(HEAD_BYTES + refs.length * HASH_BYTES);
  head.writeUInt32BE(refs.length);
  for (let i = 0; i < refs.length; i += 1)
    head.write(refs[i] ?? '', HEAD_BYTES + i * HASH_BYTES, HASH_BYTES, 'hex');
  return Buffer.concat([head, Buffer.from(text)]);
}

/** The inverse of `pack`, for the type `perdure-refs`. */
export function unpack(data: Uint8Array): { refs: string[]; text: string } {
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  const count = bytes.readUInt32BE();
  const end = HEAD_BYTES + count * HASH_BYTES;
  const digits = bytes.toString('hex', HEAD_BYTES, end);
  const refs = Array.from({ length: count }, (_, i) => digits.slice(i * HASH_DIGITS, (i + 1) * HASH_DIGITS));
  return { refs, text: bytes.toString('utf8', end) };
}

/**
 * SQL for the references in a row's `blob`, one row each, called `hash`. The row must have the type `perdure-refs`.
 * The planner takes an array for ten rows, and a series, which would be simpler, for a thousand.
 */
export function refsSql(row: string): string {
  const count = `(get_byte(${row}.blob, 1) << 16) + (get_byte(${row}.blob, 2) << 8) + get_byte(${row}.blob, 3)`;
  return `(SELECT substring(${row}.blob FROM ${HEAD_BYTES + 1 - HASH_BYTES} + ${HASH_BYTES} * g.i::int FOR ${HASH_BYTES}) AS hash
       FROM unnest(array_fill(0, ARRAY[${count}])) WITH ORDINALITY AS g(x, i))`;
}

/** SQL that tells whether the element of a hash has references. */
export function hasRefsSql(hash: string): string {
  return `get_byte(${hash}, 0) >= ${HAS_REFS}`;
}
