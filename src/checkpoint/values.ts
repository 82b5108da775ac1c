import { type PendingWrite, type SerializerProtocol, WRITES_IDX_MAP } from '@langchain/langgraph-checkpoint';
import { escapeText } from './jsonb-text.ts';
import { type Element, pack, REFS_TYPE } from './element.ts';
import type { Database } from '../postgres/database.ts';
import type { Identities } from './identities.ts';
import { naming, PerdureSerializer } from './serializer.ts';
import { Splitter } from './split.ts';
import { isLarge } from './weigh.ts';

/** A value as its row holds it. `refs` are the elements that it refers to. */
export type Stored = { type: string; data: Uint8Array; refs: readonly string[] };

/** One row of checkpoint_writes, but for the thread and the namespace. */
export type WriteRow = {
  checkpointId: string;
  taskId: string;
  taskPath: string;
  idx: number;
  channel: string;
  value: Stored;
};

/** One row of checkpoint_blobs, but for the thread and the namespace. Null stands for "no value at this version". */
export type BlobRow = { channel: string; version: string; value: Stored | null };

/** Rows with the elements that they need and that storage isn't known to have. */
export type Batch<Row> = { rows: Row[]; elements: ReadonlyMap<string, Element> };

/** What it takes to tell whether an object, or an element, is stored already. */
export type Knowledge = { identities: Identities; isStored: (hash: string) => boolean };

const NOTHING: Stored = { type: 'empty', data: new Uint8Array(), refs: [] };

/** Turns the values of one call into what is stored. The snapshot is taken before `dump` returns. */
class Dumper {
  readonly #serde: SerializerProtocol;
  readonly #splitter: Splitter;

  constructor(serde: SerializerProtocol, { identities, isStored }: Knowledge) {
    this.#serde = serde;
    this.#splitter = new Splitter(identities, isStored);
  }

  get elements(): ReadonlyMap<string, Element> {
    return this.#splitter.made;
  }

  async dump(channel: string, value: unknown): Promise<Stored> {
    const serde = this.#serde;
    if (!(serde instanceof PerdureSerializer)) {
      const [type, data] = await serde.dumpsTyped(value);
      return { type, data, refs: [] };
    }
    if (isLarge(value)) {
      const { text, refs } = naming(channel, () => this.#splitter.split(value, channel));
      if (refs.length > 0) return { type: REFS_TYPE, data: pack(refs, text), refs };
    }
    const [type, data] = serde.dump(value, channel);
    return { type, data, refs: [] };
  }
}

/** Where LangGraph's map has no place for a channel, its place among the writes. */
function indexOf(channel: string, place: number): number {
  return Object.hasOwn(WRITES_IDX_MAP, channel) ? (WRITES_IDX_MAP[channel] ?? place) : place;
}

/** @throws UnserializableValueError (or a rejection) naming the channel and the path of what can't be stored. */
export async function dumpWrites(
  serde: SerializerProtocol,
  knowledge: Knowledge,
  checkpointId: string,
  writes: readonly PendingWrite[],
  taskId: string,
  taskPath: string,
): Promise<Batch<WriteRow>> {
  const dumper = new Dumper(serde, knowledge);
  const dumped = writes.map(([channel, value]) => dumper.dump(channel, value));
  const values = await Promise.all(dumped);
  const rows = writes.map(([channel], place) => ({
    checkpointId,
    taskId,
    taskPath,
    idx: indexOf(channel, place),
    channel,
    value: values[place] ?? NOTHING,
  }));
  return { rows, elements: dumper.elements };
}

export async function dumpBlobs(
  serde: SerializerProtocol,
  knowledge: Knowledge,
  values: Readonly<Record<string, unknown>>,
  versions: Readonly<Record<string, string | number>>,
): Promise<Batch<BlobRow>> {
  const dumper = new Dumper(serde, knowledge);
  const channels = Object.entries(versions);
  const dumped = channels.map(async ([channel]) =>
    Object.hasOwn(values, channel) ? dumper.dump(channel, values[channel]) : null,
  );
  const blobs = await Promise.all(dumped);
  const rows = channels.map(([channel, version], i) => ({
    channel,
    version: String(version),
    value: blobs[i] ?? null,
  }));
  return { rows, elements: dumper.elements };
}

/** The values one after the other in one buffer, which `pg` sends as it is, and where each begins (from 1). */
export class Packer {
  readonly #parts: Uint8Array[] = [];
  #size = 0;

  add(data: Uint8Array): number {
    const at = this.#size + 1;
    this.#parts.push(data);
    this.#size += data.byteLength;
    return at;
  }

  data(): Buffer {
    return Buffer.concat(this.#parts, this.#size);
  }
}

/** The array parameters of the statement's blobs, in its order. */
export function blobColumns(rows: readonly BlobRow[], packer: Packer): unknown[] {
  return [
    rows.map((row) => escapeText(row.channel)),
    rows.map((row) => row.version),
    rows.map((row) => row.value?.type ?? 'empty'),
    rows.map((row) => (row.value ? packer.add(row.value.data) : null)),
    rows.map((row) => row.value?.data.byteLength ?? null),
  ];
}

/** The array parameters of the statement's writes, in its order. */
export function writeColumns(rows: readonly WriteRow[], packer: Packer): unknown[] {
  return [
    rows.map((row) => row.checkpointId),
    rows.map((row) => row.taskId),
    rows.map((row) => escapeText(row.taskPath)),
    rows.map((row) => row.idx),
    rows.map((row) => escapeText(row.channel)),
    rows.map((row) => row.value.type),
    rows.map((row) => packer.add(row.value.data)),
    rows.map((row) => row.value.data.byteLength),
  ];
}

/**
 * The parameters for the elements of a statement, in its order: those it brings, and those it counts on, which are
 * referred to and not among them. Undefined where nothing refers to any.
 */
export function elementColumns(
  rows: readonly { value: Stored | null }[],
  elements: ReadonlyMap<string, Element>,
  packer: Packer,
): { parameters: unknown[]; countedOn: ReadonlySet<string> } | undefined {
  if (rows.every(({ value }) => !value || value.refs.length === 0)) return undefined;
  const countedOn = new Set<string>();
  const note = (refs: readonly string[]) => {
    for (const hash of refs) if (!elements.has(hash)) countedOn.add(hash);
  };
  for (const { value } of rows) if (value) note(value.refs);
  // In one order in all statements: two that bring the same ones must not wait for each other.
  const brought = [...elements.values()].sort((a, b) => (a.hash < b.hash ? -1 : 1));
  const places: number[] = [];
  const sizes: number[] = [];
  for (const { hash, refs, text } of brought) {
    note(refs);
    const data = pack(refs, text);
    places.push(packer.add(Buffer.from(hash, 'hex')));
    packer.add(data);
    sizes.push(data.byteLength);
  }
  const counted = packer.add(Buffer.from([...countedOn].join(''), 'hex'));
  return {
    parameters: [places, sizes, brought.map(({ type }) => type), counted, countedOn.size],
    countedOn,
  };
}

/** A statement of its own that stores elements, where they don't travel with what refers to them. */
export function bringElements(
  database: Database,
  threadId: string,
  elements: ReadonlyMap<string, Element>,
): { text: string; values: unknown[] } {
  const all = [...elements.values()].sort((a, b) => (a.hash < b.hash ? -1 : 1));
  return {
    text: `INSERT INTO ${database.table('checkpoint_elements')} (thread_id, hash, type, blob)
     SELECT $1, x.hash, x.type, x.blob FROM unnest($2::bytea[], $3::text[], $4::bytea[]) AS x(hash, type, blob)
     ON CONFLICT DO NOTHING`,
    values: [
      threadId,
      all.map((element) => Buffer.from(element.hash, 'hex')),
      all.map((element) => element.type),
      all.map((element) => pack(element.refs, element.text)),
    ],
  };
}

/**
 * One row for each task and index, since a statement can't write one twice. As when they are written one after the
 * other: the first stays, except for the special writes (negative), where the last stays.
 */
export function distinctWrites(rows: readonly WriteRow[]): WriteRow[] {
  const kept = new Map<string, WriteRow>();
  for (const row of rows) {
    const key = `${row.checkpointId} ${row.idx} ${row.taskId}`;
    if (row.idx < 0 || !kept.has(key)) kept.set(key, row);
  }
  return [...kept.values()];
}
