import { type PendingWrite, type SerializerProtocol, WRITES_IDX_MAP } from '@langchain/langgraph-checkpoint';
import { escapeText } from './jsonb-text.ts';
import { type Dumped, PerdureSerializer } from './serializer.ts';

/** One row of checkpoint_writes, but for the thread and the namespace. */
export type WriteRow = {
  checkpointId: string;
  taskId: string;
  taskPath: string;
  idx: number;
  channel: string;
  value: Dumped;
};

/** One row of checkpoint_blobs, but for the thread and the namespace. Null stands for "no value at this version". */
export type BlobRow = { channel: string; version: string; value: Dumped | null };

/** The snapshot of `value` is taken before this returns, with a serializer of somebody else's too. */
async function dump(serde: SerializerProtocol, channel: string, value: unknown): Promise<Dumped> {
  return serde instanceof PerdureSerializer ? serde.dump(value, channel) : serde.dumpsTyped(value);
}

/** Where LangGraph's map has no place for a channel, its place among the writes. */
function indexOf(channel: string, place: number): number {
  return Object.hasOwn(WRITES_IDX_MAP, channel) ? (WRITES_IDX_MAP[channel] ?? place) : place;
}

/** @throws UnserializableValueError (or a rejection) naming the channel and the path of what can't be stored. */
export async function dumpWrites(
  serde: SerializerProtocol,
  checkpointId: string,
  writes: readonly PendingWrite[],
  taskId: string,
  taskPath: string,
): Promise<WriteRow[]> {
  const dumped = writes.map(([channel, value]) => dump(serde, channel, value));
  const values = await Promise.all(dumped);
  return writes.map(([channel], place) => ({
    checkpointId,
    taskId,
    taskPath,
    idx: indexOf(channel, place),
    channel,
    value: values[place] ?? ['empty', new Uint8Array()],
  }));
}

export async function dumpBlobs(
  serde: SerializerProtocol,
  values: Readonly<Record<string, unknown>>,
  versions: Readonly<Record<string, string | number>>,
): Promise<BlobRow[]> {
  const channels = Object.entries(versions);
  const dumped = channels.map(async ([channel]) =>
    Object.hasOwn(values, channel) ? dump(serde, channel, values[channel]) : null,
  );
  const blobs = await Promise.all(dumped);
  return channels.map(([channel, version], i) => ({
    channel,
    version: String(version),
    value: blobs[i] ?? null,
  }));
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
    rows.map((row) => row.value?.[0] ?? 'empty'),
    rows.map((row) => (row.value ? packer.add(row.value[1]) : null)),
    rows.map((row) => row.value?.[1].byteLength ?? null),
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
    rows.map((row) => row.value[0]),
    rows.map((row) => packer.add(row.value[1])),
    rows.map((row) => row.value[1].byteLength),
  ];
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
