/**
 * A list is written as references to chunks, chunks of chunks and items, the largest first, like the digits of its
 * length: a chunk holds 16 items, one of the next level 4 of those, and so on. Chunks begin at multiples of their size
 * and are stored under their hash, so that an append writes only what it completes, and lists that begin alike share.
 */

/** One item or several, written where they stand; or an element: an item (level 0), or a chunk (any other level). */
export type Node = { inline: readonly unknown[]; weight: number } | { hash: string; level: number };

/** As written: `[level, place of the first reference, count]`, or INLINE and the items themselves. */
export type ListPart = [level: number, ...rest: unknown[]];

export const INLINE = -1;

const ITEMS = 16;
const CHUNKS = 4;
/** Items that are all small stay together until they weigh this much. */
const MIN_INLINE_WEIGHT = 2_048;

/** @param store makes an element of some nodes and tells its hash. */
export function groupItems(items: readonly Node[], store: (members: readonly Node[]) => string): Node[] {
  let nodes = items;
  const rest: Node[][] = [];
  for (let level = 1; ; level += 1) {
    const size = level === 1 ? ITEMS : CHUNKS;
    if (nodes.length < size) return [nodes, ...rest.toReversed()].flat();
    const groups: Node[] = [];
    const whole = nodes.length - (nodes.length % size);
    for (let at = 0; at < whole; at += size) groups.push(groupOf(nodes.slice(at, at + size), level, store));
    rest.push(nodes.slice(whole));
    nodes = groups;
  }
}

function groupOf(members: readonly Node[], level: number, store: (members: readonly Node[]) => string): Node {
  const inline: unknown[] = [];
  let weight = 0;
  for (const member of members) {
    if ('hash' in member) return { hash: store(members), level };
    inline.push(...member.inline);
    weight += member.weight;
  }
  return weight < MIN_INLINE_WEIGHT ? { inline, weight } : { hash: store(members), level };
}

/** @param first the place of the first reference. Default 0. */
export function partsOf(nodes: readonly Node[], first = 0): { parts: ListPart[]; refs: string[] } {
  const parts: ListPart[] = [];
  const refs: string[] = [];
  let last: ListPart | undefined;
  for (const node of nodes) {
    const level = 'hash' in node ? node.level : INLINE;
    if (last?.[0] !== level) {
      last = 'hash' in node ? [level, first + refs.length, 0] : [INLINE];
      parts.push(last);
    }
    if ('hash' in node) {
      last[2] = (last[2] as number) + 1;
      refs.push(node.hash);
    } else for (const item of node.inline) last.push(item);
  }
  return { parts, refs };
}
