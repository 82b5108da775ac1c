import { BaseMessage } from '@langchain/core/messages';
import type { JsonValue } from '../contracts/json.ts';

/**
 * A value of the state as JSON for people and other processes. A view, not a serialization: messages become plain
 * objects with `type`, as LangGraph's platform shows them; dates ISO 8601; maps objects or pairs; sets arrays;
 * bytes base64; what JSON has no form for (NaN, bigint, functions) becomes text.
 */
export function jsonView(value: unknown): JsonValue {
  return view(value, new Set());
}

function view(value: unknown, above: Set<object>): JsonValue {
  if (value === null || value === undefined) return null;
  if (typeof value === 'string' || typeof value === 'boolean') return value;
  if (typeof value === 'number') return Number.isFinite(value) ? value : String(value);
  if (typeof value === 'bigint' || typeof value === 'symbol') return value.toString();
  if (typeof value === 'function') return `[function ${value.name}]`;
  if (typeof value !== 'object') return null;
  if (above.has(value)) return '[cycle]';
  above.add(value);
  try {
    return viewObject(value, above);
  } finally {
    above.delete(value);
  }
}

function viewObject(value: object, above: Set<object>): JsonValue {
  if (Array.isArray(value)) return value.map((item) => view(item, above));
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? 'Invalid Date' : value.toISOString();
  if (ArrayBuffer.isView(value))
    return Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('base64');
  if (value instanceof Set) return [...value].map((item) => view(item, above));
  if (value instanceof Map) return viewMap(value, above);
  if (value instanceof Error) return { name: value.name, message: value.message };
  if (value instanceof RegExp || value instanceof URL) return String(value);
  if (BaseMessage.isInstance(value)) {
    const stored = value.toDict();
    return viewObject({ ...stored.data, type: stored.type }, above);
  }
  // Not toJSON(): LangChain's would give its serialized form.
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, item]) => item !== undefined && typeof item !== 'function')
      .map(([key, item]) => [key, view(item, above)]),
  );
}

function viewMap(value: Map<unknown, unknown>, above: Set<object>): JsonValue {
  const entries = [...value];
  if (entries.every(([key]) => typeof key === 'string'))
    return Object.fromEntries(entries.map(([key, item]) => [String(key), view(item, above)]));
  return entries.map(([key, item]) => [view(key, above), view(item, above)]);
}
