import { types } from 'node:util';
import { Document } from '@langchain/core/documents';
import { UnserializableValueError } from '../contracts/errors.ts';
import { isLangChainObject, takeApart } from './langchain-classes.ts';

/** The key that marks our own records. A plain object that has it is written as a list of entries. */
export const MARK = '$perdure';

/**
 * How a value is written. `plain` is JSON as it stands; `portable` is what LangGraph's own JsonPlusSerializer
 * writes and reads back equal; `marked` holds our own records.
 */
export type Form = 'plain' | 'portable' | 'marked';

const PLAIN = 0;
const PORTABLE = 1;
const MARKED = 2;
type Level = 0 | 1 | 2;
const FORMS: readonly Form[] = ['plain', 'portable', 'marked'];

/** Where LangGraph's Command keeps the arguments of its constructor. */
export const COMMAND_SYMBOL: unique symbol = Symbol.for('langgraph.command');

/** Deeper than this, `survey` leaves the question to `encode`, which knows a cycle when it sees one. */
const SURVEY_DEPTH = 400;

export const ERROR_CLASSES: Readonly<Record<string, ErrorConstructor>> = {
  Error,
  EvalError,
  RangeError,
  ReferenceError,
  SyntaxError,
  TypeError,
  URIError,
  AggregateError: AggregateError as unknown as ErrorConstructor,
};

type BinaryClass = { prototype: object; name: string };
/** Views and buffers; Buffer before Uint8Array is of no consequence, since prototypes are compared. */
const BINARY_CLASSES: readonly BinaryClass[] = [
  Buffer,
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
  ArrayBuffer,
];

/** The form that `value` needs. */
export function survey(value: unknown): Form {
  return FORMS[levelOf(value, 0)] ?? 'marked';
}

function levelOf(value: unknown, depth: number): Level {
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return PLAIN;
    case 'number':
      return Number.isFinite(value) && !Object.is(value, -0) ? PLAIN : MARKED;
    case 'undefined':
      return PORTABLE;
    case 'object':
      return value === null ? PLAIN : objectLevel(value, depth);
    default:
      return MARKED;
  }
}

function objectLevel(value: object, depth: number): Level {
  if (depth > SURVEY_DEPTH) return MARKED;
  const prototype: unknown = Object.getPrototypeOf(value);
  if (Array.isArray(value)) {
    if (prototype !== Array.prototype || Object.keys(value).length !== value.length) return MARKED;
    return worst(value, depth);
  }
  if (prototype === Object.prototype) return recordLevel(value as Record<string, unknown>, depth);
  if (prototype === Map.prototype && Object.keys(value).length === 0)
    return entriesLevel([...(value as Map<unknown, unknown>)].flat(), depth);
  if (prototype === Set.prototype && Object.keys(value).length === 0)
    return entriesLevel([...(value as Set<unknown>)], depth);
  if (isLangChainObject(value)) {
    const parts = takeApart(value);
    if (!parts?.portable) return MARKED;
    for (const field of Object.values(parts.kwargs)) if (levelOf(field, depth + 1) !== PLAIN) return MARKED;
    return PORTABLE;
  }
  if (lgName(value) === 'DeltaSnapshot') return entriesLevel([(value as { value: unknown }).value], depth);
  return MARKED;
}

function recordLevel(value: Record<string, unknown>, depth: number): Level {
  let level: Level = PLAIN;
  for (const key of Object.keys(value)) {
    if (key === 'lc' || key === MARK || key === '__proto__' || key === '__lc_escaped__') return MARKED;
    const inner = levelOf(value[key], depth + 1);
    if (inner === MARKED) return MARKED;
    if (inner > level) level = inner;
  }
  return Object.getOwnPropertySymbols(value).length > 0 ? MARKED : level;
}

function worst(values: readonly unknown[], depth: number): Level {
  let level: Level = PLAIN;
  for (let i = 0; i < values.length; i += 1) {
    const inner = levelOf(values[i], depth + 1);
    if (inner === MARKED) return MARKED;
    if (inner > level) level = inner;
  }
  return level;
}

function entriesLevel(values: readonly unknown[], depth: number): Level {
  return worst(values, depth) === MARKED ? MARKED : PORTABLE;
}

function lgName(value: object): unknown {
  return 'lg_name' in value ? value.lg_name : undefined;
}

/** Asked while a value is encoded what to write in the place of some of its parts. */
export type Parts = {
  string(value: string): unknown;
  object(value: object, encodeIt: () => unknown): unknown;
  /** Undefined: as any other array. */
  list(items: readonly unknown[], encodeItem: (index: number) => unknown): unknown;
};

/**
 * `value` as a tree that JSON.stringify writes in the form asked for.
 * @throws UnserializableValueError for what can't come back equal; nothing is dropped in silence.
 */
export function encode(value: unknown, form: 'portable' | 'marked', channel: string, parts?: Parts): unknown {
  return new Encoder(form === 'portable', channel, parts).encode(value);
}

class Encoder {
  readonly #portable: boolean;
  readonly #channel: string;
  readonly #parts: Parts | undefined;
  readonly #path: string[] = [];
  readonly #ancestors = new Set<object>();

  constructor(portable: boolean, channel: string, parts: Parts | undefined) {
    this.#portable = portable;
    this.#channel = channel;
    this.#parts = parts;
  }

  encode(value: unknown): unknown {
    switch (typeof value) {
      case 'string':
        return this.#parts ? this.#parts.string(value) : value;
      case 'boolean':
        return value;
      case 'number':
        if (Object.is(value, -0)) return marked('number', '-0');
        return Number.isFinite(value) ? value : marked('number', String(value));
      case 'undefined':
        return this.#portable ? { lc: 2, type: 'undefined' } : { [MARK]: 'undefined' };
      case 'bigint':
        return marked('bigint', value.toString());
      case 'object':
        return value === null ? null : this.#nested(value);
      default:
        return this.#refuse(`a ${typeof value} can't be stored`);
    }
  }

  #nested(value: object): unknown {
    if (this.#ancestors.has(value)) return this.#refuse('it contains itself');
    this.#ancestors.add(value);
    const encoded = this.#parts ? this.#parts.object(value, () => this.#object(value)) : this.#object(value);
    this.#ancestors.delete(value);
    return encoded;
  }

  #at(step: string, value: unknown): unknown {
    this.#path.push(step);
    const encoded = this.encode(value);
    this.#path.pop();
    return encoded;
  }

  #refuse(reason: string): never {
    throw new UnserializableValueError(this.#channel, this.#path.join(''), reason);
  }

  #object(value: object): unknown {
    const prototype: unknown = Object.getPrototypeOf(value);
    if (Array.isArray(value)) return this.#array(value, prototype);
    if (prototype === Object.prototype || prototype === null)
      return this.#record(value as Record<string, unknown>, prototype === null);
    if (isLangChainObject(value)) return this.#langChain(value);
    return this.#langGraph(value) ?? this.#builtIn(value, prototype);
  }

  #array(value: readonly unknown[], prototype: unknown): unknown {
    if (prototype !== Array.prototype) return this.#refuse(`a ${className(value)} can't be stored`);
    this.#noSymbols(value);
    const keys = Object.keys(value);
    if (
      keys.length === value.length &&
      keys.at(-1) === (value.length === 0 ? undefined : String(value.length - 1))
    )
      return (
        this.#parts?.list(value, (index) => this.#at(`[${index}]`, value[index])) ??
        value.map((item, index) => this.#at(`[${index}]`, item))
      );
    // Holes, or properties besides the elements, as the result of String.match has them.
    return {
      [MARK]: 'array',
      length: value.length,
      v: this.#entries(keys, value as unknown as Record<string, unknown>),
    };
  }

  #record(value: Record<string, unknown>, bare: boolean): unknown {
    this.#noSymbols(value);
    const keys = Object.keys(value);
    if (bare) return { [MARK]: 'null-object', v: this.#entries(keys, value) };
    if (keys.includes('__proto__') || keys.includes(MARK))
      return { [MARK]: 'object', v: this.#entries(keys, value) };
    const encoded: Record<string, unknown> = {};
    for (const key of keys) encoded[key] = this.#at(stepTo(key), value[key]);
    return encoded;
  }

  #entries(keys: readonly string[], value: Readonly<Record<string, unknown>>): unknown[] {
    return keys.map((key) => [
      key,
      this.#at(stepTo(key), Object.getOwnPropertyDescriptor(value, key)?.value ?? value[key]),
    ]);
  }

  #langChain(value: Parameters<typeof takeApart>[0]): unknown {
    const parts = takeApart(value);
    if (!parts) return this.#refuse(`a ${className(value)} is not a LangChain class that can be built again`);
    const kwargs = this.#record(parts.kwargs, false);
    if (this.#portable) return { lc: 1, type: 'constructor', id: parts.id, kwargs };
    return {
      [MARK]: 'langchain',
      id: parts.id,
      kwargs,
      ...(parts.extra ? { extra: this.#record(parts.extra, false) } : {}),
    };
  }

  /** LangGraph's own packets, known by `lg_name` so that another copy's count as well. */
  #langGraph(value: object): unknown {
    const name = lgName(value);
    if (name === 'DeltaSnapshot') {
      const inner = this.#at('.value', (value as { value: unknown }).value);
      return this.#portable
        ? { lc: 2, type: 'delta_snapshot', value: inner }
        : { [MARK]: 'delta-snapshot', v: inner };
    }
    const fields = {
      Send: ['node', 'args', 'timeout'],
      Command: ['graph', 'update', 'resume', 'goto'],
      Overwrite: ['value'],
    };
    if (typeof name !== 'string' || !Object.hasOwn(fields, name) || className(value) !== name)
      return undefined;
    const encoded: Record<string, unknown> = {};
    for (const field of fields[name as keyof typeof fields]) {
      const inner = (value as Record<string, unknown>)[field];
      if (inner !== undefined) encoded[field] = this.#at(`.${field}`, inner);
    }
    // What a Command was made of, as it was given; `goto` above is normalised.
    if (name === 'Command')
      encoded.args = this.#at('.args', (value as { [COMMAND_SYMBOL]?: unknown })[COMMAND_SYMBOL]);
    return { [MARK]: name.toLowerCase(), v: encoded };
  }

  #builtIn(value: object, prototype: unknown): unknown {
    const binary = BINARY_CLASSES.find((candidate) => candidate.prototype === prototype);
    if (binary)
      return {
        [MARK]: 'binary',
        class: binary.name,
        v: bytesOf(value as ArrayBufferView | ArrayBuffer).toString('base64'),
      };
    const error = errorClassOf(value);
    if (error !== undefined) return this.#error(value as Error, error);
    if (Object.keys(value).length > 0 && prototype !== Document.prototype)
      return this.#refuse(
        `an instance of ${className(value)} can't be stored; make it plain data, or a known class`,
      );
    this.#noSymbols(value);
    if (prototype === Date.prototype) {
      const time = (value as Date).getTime();
      return marked('date', Number.isNaN(time) ? null : time);
    }
    if (prototype === Map.prototype) return this.#map(value as Map<unknown, unknown>);
    if (prototype === Set.prototype) return this.#set(value as Set<unknown>);
    if (prototype === RegExp.prototype) {
      const { source, flags, lastIndex } = value as RegExp;
      return marked('regexp', [source, flags, lastIndex]);
    }
    if (prototype === URL.prototype) return marked('url', (value as URL).href);
    if (prototype === URLSearchParams.prototype)
      return marked('url-search-params', (value as URLSearchParams).toString());
    if (prototype === Document.prototype) return { [MARK]: 'document', v: this.#record({ ...value }, false) };
    return this.#refuse(
      `an instance of ${className(value)} can't be stored; make it plain data, or a known class`,
    );
  }

  #map(value: Map<unknown, unknown>): unknown {
    const entries = [...value].map(([key, inner]) => {
      const name = typeof key === 'string' ? JSON.stringify(key) : typeof key;
      return [this.#at(`.key(${name})`, key), this.#at(`.get(${name})`, inner)];
    });
    return this.#portable ? construction('Map', entries) : { [MARK]: 'map', v: entries };
  }

  #set(value: Set<unknown>): unknown {
    const items = [...value].map((item, index) => this.#at(`.item(${index})`, item));
    return this.#portable ? construction('Set', items) : { [MARK]: 'set', v: items };
  }

  #error(value: Error, name: string): unknown {
    this.#noSymbols(value);
    const own = Object.getOwnPropertyNames(value).map((key) => {
      const descriptor = Object.getOwnPropertyDescriptor(value, key);
      const inner: unknown = (value as unknown as Record<string, unknown>)[key];
      return [key, this.#at(stepTo(key), inner), descriptor?.enumerable === true];
    });
    return { [MARK]: 'error', class: name, v: own };
  }

  #noSymbols(value: object): void {
    if (Object.getOwnPropertySymbols(value).length > 0) this.#refuse("keys that are symbols can't be stored");
  }
}

function errorClassOf(value: object): string | undefined {
  if (!types.isNativeError(value)) return undefined;
  return Object.entries(ERROR_CLASSES).find(
    ([, Class]) => Class.prototype === Object.getPrototypeOf(value),
  )?.[0];
}

function bytesOf(value: ArrayBufferView | ArrayBuffer): Buffer {
  return ArrayBuffer.isView(value)
    ? Buffer.from(value.buffer, value.byteOffset, value.byteLength)
    : Buffer.from(value);
}

function marked(kind: string, v: unknown): Record<string, unknown> {
  return { [MARK]: kind, v };
}

/** As JsonPlusSerializer writes a Map or a Set. */
function construction(name: string, items: unknown[]): Record<string, unknown> {
  return { lc: 2, type: 'constructor', id: [name], method: null, args: [items], kwargs: {} };
}

function stepTo(key: string): string {
  return /^[A-Za-z_$][\w$]*$/.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`;
}

function className(value: object): string {
  const constructor: unknown = value.constructor;
  return typeof constructor === 'function' && constructor.name !== ''
    ? constructor.name
    : 'class without a name';
}
