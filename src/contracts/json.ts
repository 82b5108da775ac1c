import { z } from 'zod';
import { redact } from './redact.ts';

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
  /** The way to the node that failed, `outer|inner` in a subgraph. */
  node: z.string().optional(),
  /** How often the node failed in this place; crashes of workers don't count. */
  attempts: z.int().optional(),
  /** Why it was not tried again, or that it was tried often enough: a code of the error mapper. */
  reason: z.string().optional(),
  /** What a person can do about it. */
  hint: z.string().optional(),
});
export type ErrorRecord = z.infer<typeof errorRecord>;

/** The longest stack that is kept, in characters. */
const MAX_STACK = 4_000;

/** Without secrets, as far as they can be told by their look. */
export function toErrorRecord(error: unknown): ErrorRecord {
  if (!(error instanceof Error)) return { name: 'Error', message: redact(String(error)) };
  return {
    name: error.name,
    message: redact(error.message),
    ...('code' in error && typeof error.code === 'string' ? { code: error.code } : {}),
    ...(error.stack ? { stack: redact(error.stack).slice(0, MAX_STACK) } : {}),
  };
}
