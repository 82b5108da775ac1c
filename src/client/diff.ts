import { isDeepStrictEqual } from 'node:util';
import { PerdureSaver } from '../checkpoint/saver.ts';
import { checkpointThreadId } from '../contracts/ids.ts';
import type { JsonValue } from '../contracts/json.ts';
import { jsonView } from '../graph/json-view.ts';
import type { Database } from '../postgres/database.ts';
import { absentCheckpoint } from '../threads/prunings.ts';
import { readThread } from '../threads/views.ts';

/** One difference. Only in `b`: no `before`. Only in `a`: no `after`. */
export type ValueChange = {
  /** The channel, then keys and indices: `['messages', 3, 'content']`. */
  path: (string | number)[];
  before?: JsonValue;
  after?: JsonValue;
};

export type CheckpointDiff = { a: string; b: string; changes: ValueChange[] };

/**
 * What differs between the values of two of a thread's root checkpoints, channel by channel.
 * @throws UnknownThreadError | UnknownCheckpointError | PrunedCheckpointError
 */
export async function diffCheckpoints(
  database: Database,
  tenant: string,
  threadId: string,
  a: string,
  b: string,
): Promise<CheckpointDiff> {
  await readThread(database, tenant, threadId);
  const saver = new PerdureSaver(database);
  const valuesAt = async (checkpointId: string) => {
    const thread_id = checkpointThreadId(tenant, threadId);
    const tuple = await saver.getTuple({
      configurable: { thread_id, checkpoint_ns: '', checkpoint_id: checkpointId },
    });
    if (!tuple) throw await absentCheckpoint(database, database, tenant, threadId, checkpointId);
    const channels = Object.entries(tuple.checkpoint.channel_values)
      .filter(([channel, value]) => !isInternal(channel) && !isDeltaSnapshot(value))
      .sort(([one], [other]) => (one < other ? -1 : 1));
    return jsonView(Object.fromEntries(channels));
  };
  return { a, b, changes: changesBetween(await valuesAt(a), await valuesAt(b)) };
}

/** Channels by which LangGraph plans. */
function isInternal(channel: string): boolean {
  return channel.startsWith('__') || channel.startsWith('branch:to:') || channel.startsWith('join:');
}

/** A DeltaChannel is stored whole only now and then; what it holds in between only its graph can tell. */
function isDeltaSnapshot(value: unknown): boolean {
  return (
    typeof value === 'object' && value !== null && 'lg_name' in value && value.lg_name === 'DeltaSnapshot'
  );
}

/** Objects by key, arrays by index; anything else as a whole. */
export function changesBetween(
  before: JsonValue | undefined,
  after: JsonValue | undefined,
  path: (string | number)[] = [],
): ValueChange[] {
  if (isDeepStrictEqual(before, after)) return [];
  if (Array.isArray(before) && Array.isArray(after))
    return Array.from({ length: Math.max(before.length, after.length) }, (_, index) =>
      changesBetween(before[index], after[index], [...path, index]),
    ).flat();
  if (isObject(before) && isObject(after))
    return [...new Set([...Object.keys(before), ...Object.keys(after)])].flatMap((key) =>
      changesBetween(own(before, key), own(after, key), [...path, key]),
    );
  return [
    {
      path,
      ...(before === undefined ? {} : { before }),
      ...(after === undefined ? {} : { after }),
    },
  ];
}

function own(object: { [key: string]: JsonValue }, key: string): JsonValue | undefined {
  return Object.hasOwn(object, key) ? object[key] : undefined;
}

function isObject(value: JsonValue | undefined): value is { [key: string]: JsonValue } {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
