import { type Element, elementOf, PLAIN_TEXT_TYPE, REFS_TYPE } from './element.ts';
import { encode, MARK, type Parts } from './encode.ts';
import type { Identities } from './identities.ts';
import { type Node, groupItems, partsOf } from './list-chunks.ts';
import { MARKED_TYPE } from './serializer.ts';
import { LONG_STRING, weigh } from './weigh.ts';

/** An object inside a value is an element when it weighs this much without its long strings. */
const LARGE_OBJECT = 1_024;
/** And when it is an item of a list, this much; a reference and a row of its own cost about as much. */
const LARGE_ITEM = 128;
/** Lists of fewer items, or lighter ones, are written as they stand. */
const MIN_LIST_ITEMS = 4;
const MIN_LIST_WEIGHT = 1_024;
/** A list inside a value is an element itself when it has this many references. */
const LONG_LIST_REFS = 8;
/** In the text of a string, what UTF-8 or Postgres' text can't hold. */
const NEEDS_JSON = /[\u0000\p{Cs}]/u; // oxlint-disable-line no-control-regex -- NUL is what it looks for

/** A value in the form that refers to elements. */
export type SplitValue = { text: string; refs: readonly string[] };

/**
 * Takes values apart: long strings, large objects, and the items of lists become elements. One for everything that a
 * statement stores; what it has made is in `made`.
 */
export class Splitter implements Parts {
  readonly #identities: Identities;
  readonly #isStored: (hash: string) => boolean;
  /** Elements that the storage isn't known to have. */
  readonly made = new Map<string, Element>();
  readonly #lists = new Map<object, string>();
  #refs: string[] = [];
  #depth = 0;
  #item = false;
  #itemHash: string | undefined;

  constructor(identities: Identities, isStored: (hash: string) => boolean) {
    this.#identities = identities;
    this.#isStored = isStored;
  }

  /** @throws UnserializableValueError; nothing that was made for the value before is of any use then. */
  split(value: unknown, channel: string): SplitValue {
    this.#refs = [];
    this.#depth = 0;
    this.#item = false;
    const tree = encode(value, 'marked', channel, this);
    return { text: JSON.stringify(tree), refs: this.#refs };
  }

  string(value: string): unknown {
    return value.length < LONG_STRING ? value : this.#reference(this.#text(value));
  }

  object(value: object, encodeIt: () => unknown): unknown {
    const item = this.#item;
    this.#item = false;
    if (item) return this.#asItem(value, encodeIt);
    if (this.#depth === 0 || Array.isArray(value) || weigh(value, LARGE_OBJECT) >= 0) {
      this.#depth += 1;
      const tree = encodeIt();
      this.#depth -= 1;
      return tree;
    }
    const known = this.#storedHash(value);
    if (known !== undefined) return this.#reference(known);
    const { tree, refs } = this.#apart(encodeIt);
    return this.#reference(this.#object(value, tree, refs));
  }

  list(items: readonly unknown[], encodeItem: (index: number) => unknown): unknown {
    if (items.length < MIN_LIST_ITEMS || weigh(items, MIN_LIST_WEIGHT, true) >= 0) return undefined;
    const before = this.#lists.get(items);
    if (before !== undefined) return this.#reference(before);
    const inside = this.#depth > 1;
    const nodes = groupItems(
      items.map((item, index) => this.#node(item, () => encodeItem(index))),
      (members) => this.#chunk(members),
    );
    const list = partsOf(nodes);
    if (list.refs.length === 0) return list.parts.flatMap(([, ...inline]) => inline);
    if (!inside || list.refs.length < LONG_LIST_REFS) {
      const first = this.#refs.length;
      this.#refs.push(...list.refs);
      return { [MARK]: 'list', v: partsOf(nodes, first).parts };
    }
    const hash = this.#chunk(nodes);
    this.#lists.set(items, hash);
    return { [MARK]: 'list', v: [[1, this.#refs.push(hash) - 1, 1]] };
  }

  #node(item: unknown, encodeIt: () => unknown): Node {
    if (typeof item === 'string' && item.length >= LARGE_ITEM) return { hash: this.#text(item), level: 0 };
    if (typeof item !== 'object' || item === null)
      return { inline: [encodeIt()], weight: -weigh(item, 0, true) };
    const known = this.#storedHash(item);
    if (known !== undefined) return { hash: known, level: 0 };
    this.#item = true;
    this.#itemHash = undefined;
    const tree = encodeIt();
    const hash = this.#itemHash as string | undefined;
    this.#itemHash = undefined;
    return hash === undefined
      ? { inline: [tree], weight: LARGE_ITEM - weigh(item, LARGE_ITEM, true) }
      : { hash, level: 0 };
  }

  #asItem(value: object, encodeIt: () => unknown): unknown {
    const { tree, refs } = this.#apart(encodeIt);
    if (refs.length === 0 && weigh(value, LARGE_ITEM, true) >= 0) return tree;
    this.#itemHash = this.#object(value, tree, refs);
    return null;
  }

  /** Encodes with references of its own. */
  #apart(encodeIt: () => unknown): { tree: unknown; refs: string[] } {
    const around = this.#refs;
    const refs: string[] = [];
    this.#refs = refs;
    this.#depth += 1;
    const tree = encodeIt();
    this.#depth -= 1;
    this.#refs = around;
    return { tree, refs };
  }

  #object(value: object, tree: unknown, refs: readonly string[]): string {
    const hash = this.#make(elementOf(refs.length > 0 ? REFS_TYPE : MARKED_TYPE, JSON.stringify(tree), refs));
    if (!Array.isArray(value)) this.#identities.remember(value, hash);
    return hash;
  }

  #text(value: string): string {
    return this.#make(
      NEEDS_JSON.test(value)
        ? elementOf(MARKED_TYPE, JSON.stringify(value), [])
        : elementOf(PLAIN_TEXT_TYPE, value, []),
    );
  }

  #chunk(members: readonly Node[]): string {
    const { refs, parts } = partsOf(members);
    const text = JSON.stringify({ [MARK]: 'list', v: parts });
    return this.#make(elementOf(refs.length > 0 ? REFS_TYPE : MARKED_TYPE, text, refs));
  }

  #make(element: Element): string {
    if (!this.#isStored(element.hash)) this.made.set(element.hash, element);
    return element.hash;
  }

  /** Of an object that was written or read before, has not changed since, and is stored with this thread. */
  #storedHash(value: object): string | undefined {
    const hash = this.#identities.hashOf(value, this);
    return hash !== undefined && (this.#isStored(hash) || this.made.has(hash)) ? hash : undefined;
  }

  #reference(hash: string): unknown {
    return { [MARK]: 'ref', v: this.#refs.push(hash) - 1 };
  }
}
