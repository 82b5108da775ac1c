import { JsonPlusSerializer, type SerializerProtocol } from '@langchain/langgraph-checkpoint';
import { PerdureError, UnserializableValueError } from '../contracts/errors.ts';
import { decodeMarked, decodePortable, NEEDS_LOAD } from './decode.ts';
import { PLAIN_TEXT_TYPE } from './element.ts';
import { encode, MARK, survey } from './encode.ts';

/** A value as it is stored: a type tag and bytes. */
export type Dumped = readonly [type: string, data: Uint8Array];

/** Tag of values that hold our own records. */
export const MARKED_TYPE = 'perdure-json';
/** Tag of LangGraph's JsonPlusSerializer: whoever reads that, reads this. */
export const PORTABLE_TYPE = 'json';
/** Tag of raw bytes; they come back as a Buffer, as with the shipped saver. */
export const BYTES_TYPE = 'bytes';

/** Tags whose bytes are UTF-8 text. */
export const TEXT_TYPES: readonly string[] = [PORTABLE_TYPE, MARKED_TYPE, PLAIN_TEXT_TYPE];

/** @throws UnserializableValueError where `work` is beyond what the engine can do with a value. */
export function naming<T>(channel: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (error instanceof RangeError)
      throw new UnserializableValueError(
        channel,
        '',
        `it is nested too deeply, or too large (${error.message})`,
      );
    throw error;
  }
}

/**
 * Stores a value so that it comes back equal and of the same type, or refuses it.
 *
 * Beyond JSON it keeps: undefined, NaN, the infinities, -0, bigint, Date (invalid ones too), Buffer, typed arrays,
 * ArrayBuffer, DataView, Map, Set, RegExp, URL, URLSearchParams, the built-in Error classes (message, stack, cause,
 * own properties), objects without a prototype, arrays with holes or extra properties, keys named `__proto__`,
 * LangChain's messages, documents, prompts and prompt values, and LangGraph's Send, Command, Overwrite and
 * DeltaSnapshot. An object that is referred to twice comes back as two. Cycles, functions, symbols, and instances of
 * any other class (own Error classes included) are refused.
 *
 * What JsonPlusSerializer reads back equal is written in its form under its tag, `json`, so that the shipped saver
 * can read it; the rest is `perdure-json`. Whatever JsonPlusSerializer wrote is read as it would.
 */
export class PerdureSerializer implements SerializerProtocol {
  readonly #shipped = new JsonPlusSerializer();

  /**
   * Takes its snapshot before it returns: later changes to `value` don't show.
   * @param channel names the value in errors.
   * @throws UnserializableValueError with `channel` and `path`.
   */
  dump(value: unknown, channel = 'value'): Dumped {
    if (Buffer.isBuffer(value) && Object.getPrototypeOf(value) === Buffer.prototype)
      return [BYTES_TYPE, Buffer.from(value)];
    return naming(channel, () => {
      const form = survey(value);
      const text = JSON.stringify(form === 'plain' ? value : encode(value, form, channel));
      return [form === 'marked' ? MARKED_TYPE : PORTABLE_TYPE, Buffer.from(text)];
    });
  }

  /** A promise only where LangChain's asynchronous `load` is needed, for rare objects that the shipped saver wrote. */
  load(type: string, data: Uint8Array | string): unknown {
    if (type === BYTES_TYPE) return Buffer.from(data as Uint8Array);
    if (type !== PORTABLE_TYPE && type !== MARKED_TYPE)
      throw new PerdureError('VALUE_UNREADABLE', `A stored value has the unknown type tag '${type}'.`, {
        type,
      });
    const text =
      typeof data === 'string'
        ? data
        : Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('utf8');
    const parsed: unknown = JSON.parse(text);
    if (type === MARKED_TYPE) return decodeMarked(parsed);
    if (!text.includes('"lc":')) return parsed;
    const decoded = decodePortable(parsed);
    return decoded === NEEDS_LOAD ? this.#shipped.loadsTyped(PORTABLE_TYPE, text) : decoded;
  }

  /**
   * A value as a JSON tree, for columns that hold JSON and have no room for a type tag.
   * @throws UnserializableValueError as `dump` does.
   */
  toTree(value: unknown, channel: string): unknown {
    const form = survey(value);
    return form === 'plain' ? value : encode(value, form, channel);
  }

  /** The inverse of `toTree`. `text` is the tree's JSON, which tells quickly that there is nothing to do. */
  fromTree(tree: unknown, text: string): unknown {
    if (text.includes(`"${MARK}"`)) return decodeMarked(tree);
    if (!/"lc"\s*:/.test(text)) return tree;
    const decoded = decodePortable(tree);
    return decoded === NEEDS_LOAD ? this.#shipped.loadsTyped(PORTABLE_TYPE, text) : decoded;
  }

  async dumpsTyped(value: unknown): Promise<[string, Uint8Array]> {
    const [type, data] = this.dump(value);
    return [type, data];
  }

  async loadsTyped(type: string, data: Uint8Array | string): Promise<unknown> {
    return this.load(type, data);
  }
}
