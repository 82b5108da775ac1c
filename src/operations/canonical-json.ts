import { createHash } from 'node:crypto';
import { InvalidInputError } from '../contracts/errors.ts';
import type { JsonValue } from '../contracts/json.ts';

/**
 * Arguments as JSON, to be stored, shown and hashed. What JSON lacks is marked (`{"$bigint":"10"}`), so that other
 * arguments never look the same; what can't be told apart by its data (functions, symbols) is refused.
 * @throws InvalidInputError with the path of the value.
 */
export function argumentsJson(value: unknown): JsonValue {
  return toJson(value, 'args', []) ?? null;
}

/** The hash by which the same arguments are known, whatever the order of their keys: SHA-256 in hex. */
export function argumentsHash(args: JsonValue): string {
  return createHash('sha256').update(canonical(args)).digest('hex');
}

/** JSON text with sorted keys. */
function canonical(value: JsonValue): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  return `{${entries.map(([key, each]) => `${JSON.stringify(key)}:${canonical(each)}`).join(',')}}`;
}

function toJson(value: unknown, path: string, above: readonly object[]): JsonValue | undefined {
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return value;
    case 'undefined':
      return undefined;
    case 'number':
      return Number.isFinite(value) ? value : { $number: String(value) };
    case 'bigint':
      return { $bigint: String(value) };
    case 'object':
      return value === null ? null : objectToJson(value, path, above);
    default:
      throw new InvalidInputError(`${path} is a ${typeof value}; an operation's arguments have to be data.`, {
        path,
      });
  }
}

function objectToJson(value: object, path: string, above: readonly object[]): JsonValue | undefined {
  if (above.includes(value))
    throw new InvalidInputError(`${path} refers back to an object that holds it.`, { path });
  const inside = [...above, value];
  const list = (items: Iterable<unknown>): JsonValue[] =>
    Array.from(items, (item, index) => toJson(item, `${path}[${index}]`, inside) ?? null);
  if (Array.isArray(value)) return list(value);
  if (value instanceof Map) return { $map: list(value.entries()) };
  if (value instanceof Set) return { $set: list(value) };
  if (ArrayBuffer.isView(value))
    return { $bytes: Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('base64') };
  if (value instanceof ArrayBuffer) return { $bytes: Buffer.from(value).toString('base64') };
  if (value instanceof Date)
    return Number.isNaN(value.getTime()) ? { $date: 'invalid' } : value.toISOString();
  if (value instanceof Error) return { name: value.name, message: value.message };
  if (hasToJson(value)) return toJson(value.toJSON(), path, inside);
  return Object.fromEntries(
    Object.entries(value).flatMap(([key, each]): [string, JsonValue][] => {
      const json = toJson(each, `${path}.${key}`, inside);
      return json === undefined ? [] : [[key, json]];
    }),
  );
}

function hasToJson(value: object): value is { toJSON(): unknown } {
  return 'toJSON' in value && typeof value.toJSON === 'function';
}
