import { isLangChainObject } from './langchain-classes.ts';

/** Strings of this many characters or more are elements, wherever they are. */
export const LONG_STRING = 1_024;
/** What a long string weighs that is stored apart: its reference. */
const REFERENCE = 30;
/** The names of its class, and the like. */
const LIBRARY_OBJECT = 60;

/**
 * What is left of `budget`, in characters of JSON, after `value`; negative when it doesn't suffice. Rough, and quick:
 * it stops as soon as the budget is spent.
 * @param whole whether long strings count in full; else as references.
 */
export function weigh(value: unknown, budget: number, whole = false): number {
  switch (typeof value) {
    case 'string':
      return budget - (value.length >= LONG_STRING && !whole ? REFERENCE : value.length + 3);
    case 'number':
      return budget - (Number.isInteger(value) ? 6 : 19);
    case 'object':
      return value === null ? budget - 5 : weighObject(value, budget, whole);
    default:
      return budget - 6;
  }
}

function weighObject(value: object, budget: number, whole: boolean): number {
  let left = budget - 3;
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length && left >= 0; i += 1) left = weigh(value[i], left, whole);
    return left;
  }
  if (value instanceof Map || value instanceof Set) {
    for (const [key, inner] of value.entries()) {
      left = weigh(inner, value instanceof Map ? weigh(key, left, whole) : left, whole);
      if (left < 0) return left;
    }
    return left;
  }
  if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) return left - value.byteLength * 1.4;
  const library = isLangChainObject(value);
  if (library) left -= LIBRARY_OBJECT;
  const fields = value as Readonly<Record<string, unknown>>;
  for (const name of Object.keys(value)) {
    // What LangChain's classes keep about themselves is not stored, or is among their other fields.
    if (library && name.startsWith('lc_')) continue;
    left = weigh(fields[name], left - name.length - 4, whole);
    if (left < 0) return left;
  }
  return left;
}

/** Whether a value is worth taking apart: it weighs as much as a long string. */
export function isLarge(value: unknown): boolean {
  return weigh(value, LONG_STRING, true) < 0;
}
