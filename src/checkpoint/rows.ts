import { type Element, REFS_TYPE, unpack } from './element.ts';
import { unescapeText } from './jsonb-text.ts';

type Cell = string | null;
/** As the statements give them; see statements.ts. */
export type TupleRow = [
  kind: 0 | 1 | 2 | 3,
  threadId: string,
  ns: string,
  c1: string,
  c2: Cell,
  c3: Cell,
  c4: Cell,
  c5: Cell,
  idx: number | null,
  text: Cell,
  bytes: Buffer | null,
];
export type DeltaRow = [
  kind: 1 | 2 | 3,
  depth: number,
  taskId: Cell,
  channel: string,
  type: string,
  taskPath: Cell,
  idx: number | null,
  text: Cell,
  bytes: Buffer | null,
];

export type StoredValue = { type: string; data: string | Buffer; refs?: readonly string[] };
export type StoredWrite = StoredValue & { taskId: string; channel: string; taskPath: string; idx: number };

/** Rows by kind, the checkpoints in the order that the statement gave them. */
export type Found = {
  heads: TupleRow[];
  blobs: Map<string, StoredValue>;
  writes: Map<string, StoredWrite[]>;
  elements: Map<string, Element>;
  /** What the values refer to. */
  roots: string[];
};

export function sortRows(rows: readonly TupleRow[]): Found {
  const found: Found = { heads: [], blobs: new Map(), writes: new Map(), elements: new Map(), roots: [] };
  const { heads, blobs, writes, elements } = found;
  for (const row of rows) {
    const [kind, threadId, ns, c1, c2, c3, c4, c5, idx, text, bytes] = row;
    if (kind === 0) {
      heads.push(row);
      continue;
    }
    const value = storedValue(c3 ?? '', text, bytes);
    if (kind === 3) {
      elements.set(c1, storedElement(c1, value));
      continue;
    }
    if (value.refs) found.roots.push(...value.refs);
    if (kind === 1) {
      blobs.set(key(threadId, ns, c1, c2 ?? ''), value);
      continue;
    }
    const under = key(threadId, ns, c1);
    const write = {
      ...value,
      taskId: c2 ?? '',
      channel: unescapeText(c4 ?? ''),
      taskPath: unescapeText(c5 ?? ''),
      idx: idx ?? 0,
    };
    const others = writes.get(under);
    if (others) others.push(write);
    else writes.set(under, [write]);
  }
  heads.sort((a, b) => (a[8] ?? 0) - (b[8] ?? 0));
  return found;
}

export function storedValue(type: string, text: Cell, bytes: Buffer | null): StoredValue {
  if (type !== REFS_TYPE || !bytes) return { type, data: text ?? bytes ?? '' };
  const { refs, text: data } = unpack(bytes);
  return { type, data, refs };
}

export function storedElement(hash: string, { type, data, refs = [] }: StoredValue): Element {
  return { hash, type: type as Element['type'], text: String(data), refs };
}

export function key(...parts: string[]): string {
  return parts.join('\u0000');
}
