import { Document } from '@langchain/core/documents';
import { Command, Overwrite, Send } from '@langchain/langgraph';
import { DeltaSnapshot } from '@langchain/langgraph-checkpoint';
import { PerdureError } from '../contracts/errors.ts';
import { ERROR_CLASSES, MARK } from './encode.ts';
import { messageFromJson, putTogether } from './langchain-classes.ts';

type Fields = Record<string, unknown>;

/** What was read names something this version of perdure doesn't know. */
function unreadable(what: string): PerdureError {
  return new PerdureError(
    'VALUE_UNREADABLE',
    `A stored value holds ${what}, which this version of perdure can't read.`,
    { what },
  );
}

/** Turns our own records in a parsed tree back into what they stand for. Changes the tree in place. */
export function decodeMarked(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i += 1) value[i] = decodeMarked(value[i]);
    return value;
  }
  const record = value as Fields;
  const kind = record[MARK];
  if (typeof kind === 'string') return decodeRecord(kind, record);
  for (const key of Object.keys(record)) record[key] = decodeMarked(record[key]);
  return record;
}

function decodeRecord(kind: string, record: Fields): unknown {
  const { v } = record;
  switch (kind) {
    case 'undefined':
      return undefined;
    case 'number':
      return Number(v);
    case 'bigint':
      return BigInt(v as string);
    case 'date':
      return new Date(v === null ? Number.NaN : (v as number));
    case 'regexp': {
      const [source, flags, lastIndex] = v as [string, string, number];
      const expression = new RegExp(source, flags);
      expression.lastIndex = lastIndex;
      return expression;
    }
    case 'url':
      return new URL(v as string);
    case 'url-search-params':
      return new URLSearchParams(v as string);
    case 'binary':
      return decodeBinary(record.class as string, v as string);
    case 'array':
      return decodeArray(record.length as number, v as [string, unknown][]);
    case 'object':
      return defineAll({}, v as [string, unknown][]);
    case 'null-object':
      return defineAll(Object.create(null) as object, v as [string, unknown][]);
    case 'map':
      return new Map(decodeMarked(v) as [unknown, unknown][]);
    case 'set':
      return new Set(decodeMarked(v) as unknown[]);
    case 'error':
      return decodeError(record.class as string, v as [string, unknown, boolean][]);
    default:
      return decodeLibraryObject(kind, record);
  }
}

function decodeLibraryObject(kind: string, record: Fields): unknown {
  switch (kind) {
    case 'langchain': {
      const extra = record.extra === undefined ? undefined : (decodeMarked(record.extra) as Fields);
      const object = putTogether(record.id as string[], decodeMarked(record.kwargs) as Fields, extra);
      if (!object) throw unreadable(`the LangChain class ${(record.id as string[]).join('/')}`);
      return object;
    }
    case 'document':
      return new Document(decodeMarked(record.v) as ConstructorParameters<typeof Document>[0]);
    case 'send': {
      const { node, args, timeout } = record.v as Fields;
      const send = new Send<string, unknown>(node as string, null);
      // Not through the constructor, which would turn data that looks like a packet into one.
      send.args = decodeMarked(args);
      if (timeout !== undefined) send.timeout = decodeMarked(timeout) as NonNullable<Send['timeout']>;
      return send;
    }
    case 'command': {
      const { args, ...fields } = decodeMarked(record.v) as Fields;
      return Object.assign(new Command((args ?? {}) as ConstructorParameters<typeof Command>[0]), fields);
    }
    case 'overwrite':
      return new Overwrite((decodeMarked(record.v) as Fields).value);
    case 'delta-snapshot':
      return new DeltaSnapshot(decodeMarked(record.v));
    default:
      throw unreadable(`a record of the kind '${kind}'`);
  }
}

const VIEWS: Readonly<Record<string, new (buffer: ArrayBuffer) => ArrayBufferView>> = {
  Uint8Array,
  Uint8ClampedArray,
  Int8Array,
  Int16Array,
  Uint16Array,
  Int32Array,
  Uint32Array,
  Float32Array,
  Float64Array,
  BigInt64Array,
  BigUint64Array,
  DataView,
};

function decodeBinary(name: string, base64: string): unknown {
  const bytes = Buffer.from(base64, 'base64');
  if (name === 'Buffer') return bytes;
  const buffer = new ArrayBuffer(bytes.byteLength);
  new Uint8Array(buffer).set(bytes);
  if (name === 'ArrayBuffer') return buffer;
  const View = Object.hasOwn(VIEWS, name) ? VIEWS[name] : undefined;
  if (!View) throw unreadable(`the binary class '${name}'`);
  return new View(buffer);
}

function decodeArray(length: number, entries: [string, unknown][]): unknown[] {
  const array: unknown[] = [];
  array.length = length;
  defineAll(array, entries);
  return array;
}

function defineAll(target: object, entries: [string, unknown][]): object {
  for (const [key, value] of entries) define(target, key, decodeMarked(value), true);
  return target;
}

function define(target: object, key: string, value: unknown, enumerable: boolean): void {
  Object.defineProperty(target, key, { value, enumerable, writable: true, configurable: true });
}

function decodeError(name: string, own: [string, unknown, boolean][]): Error {
  const Class = ERROR_CLASSES[name];
  if (!Class) throw unreadable(`the error class '${name}'`);
  const error: Error = Object.is(Class, AggregateError) ? new AggregateError([]) : new Class();
  for (const key of Object.getOwnPropertyNames(error)) Reflect.deleteProperty(error, key);
  for (const [key, value, enumerable] of own) define(error, key, decodeMarked(value), enumerable);
  return error;
}

/** What `decodePortable` gives where only LangChain's asynchronous `load` can tell. */
export const NEEDS_LOAD = Symbol('needs load');

/**
 * What JsonPlusSerializer makes of a parsed tree, without its promises. Changes the tree in place.
 * @returns NEEDS_LOAD when the tree holds a LangChain object that only LangChain's own `load` can build.
 */
export function decodePortable(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i += 1) {
      const inner = decodePortable(value[i]);
      if (inner === NEEDS_LOAD) return NEEDS_LOAD;
      value[i] = inner;
    }
    return value;
  }
  const record = value as Fields;
  for (const key of Object.keys(record)) {
    if (key === '__lc_escaped__' || key === '__proto__') return NEEDS_LOAD;
    const inner = decodePortable(record[key]);
    if (inner === NEEDS_LOAD) return NEEDS_LOAD;
    record[key] = inner;
  }
  if (record.lc === 2) return portableRecord(record);
  if (record.lc === 1 && record.type === 'constructor' && Array.isArray(record.id))
    return messageFromJson(record.id, record.kwargs) ?? NEEDS_LOAD;
  return record;
}

function portableRecord(record: Fields): unknown {
  if (record.type === 'undefined') return undefined;
  if (record.type === 'delta_snapshot' && Object.hasOwn(record, 'value'))
    return new DeltaSnapshot(record.value);
  if (record.type !== 'constructor') return record;
  const { id, args, method } = record;
  const name: unknown = Array.isArray(id) && id.length === 1 ? id[0] : undefined;
  const items: unknown = Array.isArray(args) && args.length === 1 ? args[0] : undefined;
  if (method == null && Array.isArray(items)) {
    if (name === 'Set') return new Set(items);
    if (name === 'Map' && items.every((item) => Array.isArray(item) && item.length === 2))
      return new Map(items as [unknown, unknown][]);
  }
  // The rest (RegExp, Error, Uint8Array) is written by the shipped saver alone: let its own reader do it.
  return NEEDS_LOAD;
}
