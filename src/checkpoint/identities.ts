import { Document } from '@langchain/core/documents';
import { isLangChainObject } from './langchain-classes.ts';

type Fields = Readonly<Record<string, unknown>>;
/** What an object held, and those inside it, when its hash was taken: every property, compared by identity. */
type Part = { target: object; names: readonly string[] | undefined; values: readonly unknown[] };
type Known = { hash: string; parts: readonly Part[]; seenIn: object | undefined };

/**
 * The hashes of objects that were written or read before, so that an unchanged message is neither serialised nor
 * hashed again.
 *
 * Objects may be changed in place (LangGraph itself gives messages their ids so), therefore each is compared with what
 * it held, at any depth, before its hash is believed. Only plain objects, arrays, LangChain's classes and documents are
 * remembered; whatever holds anything else (a Date, a Map, ...), which can change unseen, is serialised each time.
 */
export class Identities {
  readonly #known = new WeakMap<object, Known>();

  /** @param moment objects that were found unchanged are not looked at again under the same one. */
  hashOf(value: object, moment: object): string | undefined {
    const known = this.#known.get(value);
    if (!known) return undefined;
    if (known.seenIn !== moment) {
      if (!known.parts.every(isUnchanged)) {
        this.#known.delete(value);
        return undefined;
      }
      known.seenIn = moment;
    }
    return known.hash;
  }

  remember(value: object, hash: string): void {
    const parts: Part[] = [];
    if (collect(value, parts, new Set())) this.#known.set(value, { hash, parts, seenIn: undefined });
  }
}

function isUnchanged({ target, names, values }: Part): boolean {
  if (names === undefined) {
    const items = target as readonly unknown[];
    if (items.length !== values.length) return false;
    for (let i = 0; i < values.length; i += 1) if (!Object.is(items[i], values[i])) return false;
    return true;
  }
  const now = Object.keys(target);
  if (now.length !== names.length) return false;
  for (let i = 0; i < names.length; i += 1) {
    const name = now[i] ?? '';
    if (name !== names[i] || !Object.is((target as Fields)[name], values[i])) return false;
  }
  return true;
}

/** @returns false when there is something in `value` that can change without its properties changing. */
function collect(value: object, parts: Part[], seen: Set<object>): boolean {
  if (seen.has(value)) return true;
  seen.add(value);
  const prototype: unknown = Object.getPrototypeOf(value);
  if (Array.isArray(value)) {
    if (prototype !== Array.prototype) return false;
    const values = value.slice();
    parts.push({ target: value, names: undefined, values });
    return values.every((inner) => collectInner(inner, parts, seen));
  }
  const library = isLangChainObject(value);
  if (!library && prototype !== Object.prototype && prototype !== Document.prototype) return false;
  const names = Object.keys(value);
  const values = names.map((name) => (value as Fields)[name]);
  parts.push({ target: value, names, values });
  return names.every(
    (name, i) => (library && name === 'lc_namespace') || collectInner(values[i], parts, seen),
  );
}

function collectInner(value: unknown, parts: Part[], seen: Set<object>): boolean {
  if (typeof value === 'function') return false;
  return typeof value !== 'object' || value === null || collect(value, parts, seen);
}
