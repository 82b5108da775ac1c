import { PerdureError } from '../contracts/errors.ts';
import { decodeMarked, type References } from './decode.ts';
import { type Element, PLAIN_TEXT_TYPE } from './element.ts';
import { MARK } from './encode.ts';
import type { Identities } from './identities.ts';

/** Notes what a read shows to be stored. */
export type Stored = Pick<Set<string>, 'add'>;

/** Puts values together from the elements at hand. What it gives is made anew each time. */
export class ElementSource {
  readonly #places: readonly ReadonlyMap<string, Element>[];
  readonly #identities: Identities;
  readonly #stored: Stored | undefined;

  /** @param stored takes the hashes of all elements that are met; without it, their objects aren't remembered either. */
  constructor(
    places: readonly ReadonlyMap<string, Element>[],
    identities: Identities,
    stored: Stored | undefined,
  ) {
    this.#places = places;
    this.#identities = identities;
    this.#stored = stored;
  }

  /** @throws PerdureError VALUE_UNREADABLE when an element is not at hand. */
  value(text: string, refs: readonly string[]): unknown {
    const tree: unknown = JSON.parse(text);
    return refs.length > 0 || text.includes(`"${MARK}"`) ? decodeMarked(tree, this.#references(refs)) : tree;
  }

  #references(refs: readonly string[]): References {
    return {
      at: (place) => {
        const element = this.#find(refs[place]);
        if (element.type === PLAIN_TEXT_TYPE) return element.text;
        const value = this.value(element.text, element.refs);
        if (this.#stored && typeof value === 'object' && value !== null && !Array.isArray(value))
          this.#identities.remember(value, element.hash);
        return value;
      },
      addChunk: (place, items) => {
        const element = this.#find(refs[place]);
        for (const item of this.value(element.text, element.refs) as unknown[]) items.push(item);
      },
    };
  }

  #find(hash: string | undefined): Element {
    if (hash !== undefined)
      for (const place of this.#places) {
        const element = place.get(hash);
        if (!element) continue;
        this.#stored?.add(hash);
        return element;
      }
    throw new PerdureError(
      'VALUE_UNREADABLE',
      `A part of a stored value is missing from the table checkpoint_elements (${hash}). Restore it from a backup, or go on from an older checkpoint.`,
      { hash },
    );
  }
}
