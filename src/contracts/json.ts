import { z } from 'zod';

/** What JSON can hold: the only thing that crosses a process. */
export type JsonValue = string | number | boolean | null | JsonValue[] | { [key: string]: JsonValue };

/** The deepest nesting that every JSON parser and Postgres take without trouble. */
const MAX_DEPTH = 1_000;

/** Gives the value itself, not a copy: `z.json()` copies, drops `__proto__`, takes cycles and is slow. */
export const jsonValue: z.ZodType<JsonValue> = z.custom<JsonValue>(
  isJsonValue,
  `has to be JSON: no undefined, NaN, Infinity, Date or other object, and at most ${MAX_DEPTH} levels`,
);

function isJsonValue(value: unknown): value is JsonValue {
  return isJson(value, new Set());
}

function isJson(value: unknown, above: Set<object>): boolean {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return true;
  if (typeof value === 'number') return Number.isFinite(value);
  if (typeof value !== 'object' || above.has(value) || above.size === MAX_DEPTH) return false;
  above.add(value);
  const fits = (item: unknown) => isJson(item, above);
  // Array.from: a hole in an array is an undefined.
  const all = Array.isArray(value)
    ? Array.from(value).every(fits)
    : isPlainObject(value) && Object.values(value).every(fits);
  above.delete(value);
  return all;
}

function isPlainObject(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || prototype === Object.prototype || Object.getPrototypeOf(prototype) === null;
}

export const jsonObject: z.ZodType<{ [key: string]: JsonValue }> = z.record(z.string(), jsonValue);

/** An error as it is kept in Postgres and shown to people. */
export const errorRecord = z.object({
  name: z.string(),
  message: z.string(),
  code: z.string().optional(),
  stack: z.string().optional(),
  node: z.string().optional(),
});
export type ErrorRecord = z.infer<typeof errorRecord>;

/** The longest stack that is kept, in characters. */
const MAX_STACK = 4_000;

export function toErrorRecord(error: unknown): ErrorRecord {
  if (!(error instanceof Error)) return { name: 'Error', message: String(error) };
  return {
    name: error.name,
    message: error.message,
    ...('code' in error && typeof error.code === 'string' ? { code: error.code } : {}),
    ...(error.stack ? { stack: error.stack.slice(0, MAX_STACK) } : {}),
  };
}
