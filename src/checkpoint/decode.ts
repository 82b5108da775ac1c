import { Document } from '@langchain/core/documents';
import { Command, Overwrite, Send } from '@langchain/langgraph';
import { DeltaSnapshot } from '@langchain/langgraph-checkpoint';
import { PerdureError } from '../contracts/errors.ts';
import { ERROR_CLASSES, MARK } from './encode.ts';
import { INLINE, type ListPart } from './list-chunks.ts';
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

/** Gives the parts of a value that are stored apart; see element.ts. */
export type References = {
  /** The one at this place of the references. */
  at(place: number): unknown;
  /** Adds the items of the chunk at this place to `items`. */
  addChunk(place: number, items: unknown[]): void;
};

/** Turns our own records in a parsed tree back into what they stand for. Changes the tree in place. */
export function decodeMarked(value: unknown, references?: References): unknown {
  return new Decoder(references).decode(value);
}

class Decoder {
  readonly #references: References | undefined;

  constructor(references: References | undefined) {
    this.#references = references;
  }

  decode(value: unknown): unknown {
    if (typeof value !== 'object' || value === null) return value;
    if (Array.isArray(value)) {
      for (let i = 0; i < value.length; i += 1) value[i] = this.decode(value[i]);
      return value;
    }
    const record = value as Fields;
    const kind = record[MARK];
    if (typeof kind === 'string') return this.#record(kind, record);
    for (const key of Object.keys(record)) record[key] = this.decode(record[key]);
    return record;
  }

  #record(kind: string, record: Fields): unknown {
    const { v } = record;
    switch (kind) {
      case 'ref':
        return this.#stored().at(v as number);
      case 'list':
        return this.#list(v as ListPart[]);
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
        return this.#array(record.length as number, v as [string, unknown][]);
      case 'object':
        return this.#defineAll({}, v as [string, unknown][]);
      case 'null-object':
        return this.#defineAll(Object.create(null) as object, v as [string, unknown][]);
      case 'map':
        return new Map(this.decode(v) as [unknown, unknown][]);
      case 'set':
        return new Set(this.decode(v) as unknown[]);
      case 'error':
        return this.#error(record.class as string, v as [string, unknown, boolean][]);
      default:
        return this.#libraryObject(kind, record);
    }
  }

  #libraryObject(kind: string, record: Fields): unknown {
    switch (kind) {
      case 'langchain': {
        const extra = record.extra === undefined ? undefined : (this.decode(record.extra) as Fields);
        const object = putTogether(record.id as string[], this.decode(record.kwargs) as Fields, extra);
        if (!object) throw unreadable(`the LangChain class ${(record.id as string[]).join('/')}`);
        return object;
      }
      case 'document':
        return new Document(this.decode(record.v) as ConstructorParameters<typeof Document>[0]);
      case 'send': {
        const { node, args, timeout } = record.v as Fields;
        const send = new Send<string, unknown>(node as string, null);
        // Not through the constructor, which would turn data that looks like a packet into one.
        send.args = this.decode(args);
        if (timeout !== undefined) send.timeout = this.decode(timeout) as NonNullable<Send['timeout']>;
        return send;
      }
      case 'command': {
        const { args, ...fields } = this.decode(record.v) as Fields;
        return Object.assign(new Command((args ?? {}) as ConstructorParameters<typeof Command>[0]), fields);
      }
      case 'overwrite':
        return new Overwrite((this.decode(record.v) as Fields).value);
      case 'delta-snapshot':
        return new DeltaSnapshot(this.decode(record.v));
      default:
        throw unreadable(`a record of the kind '${kind}'`);
    }
  }

  #array(length: number, entries: [string, unknown][]): unknown[] {
    const array: unknown[] = [];
    array.length = length;
    this.#defineAll(array, entries);
    return array;
  }

  #defineAll(target: object, entries: [string, unknown][]): object {
    for (const [key, value] of entries) define(target, key, this.decode(value), true);
    return target;
  }

  #error(name: string, own: [string, unknown, boolean][]): Error {
    const Class = ERROR_CLASSES[name];
    if (!Class) throw unreadable(`the error class '${name}'`);
    const error: Error = Object.is(Class, AggregateError) ? new AggregateError([]) : new Class();
    for (const key of Object.getOwnPropertyNames(error)) Reflect.deleteProperty(error, key);
    for (const [key, value, enumerable] of own) define(error, key, this.decode(value), enumerable);
    return error;
  }

  #stored(): References {
    if (!this.#references) throw unreadable('a reference where none can be');
    return this.#references;
  }

  /** As list-chunks.ts writes it. */
  #list(parts: readonly ListPart[]): unknown[] {
    const items: unknown[] = [];
    for (const part of parts) {
      if (part[0] === INLINE) for (const item of part.slice(1)) items.push(this.decode(item));
      else {
        const [level, first, count] = part as ListPart & [number, number, number];
        for (let place = first; place < first + count; place += 1)
          if (level === 0) items.push(this.#stored().at(place));
          else this.#stored().addChunk(place, items);
      }
    }
    return items;
  }
}

function define(target: object, key: string, value: unknown, enumerable: boolean): void {
  Object.defineProperty(target, key, { value, enumerable, writable: true, configurable: true });
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
