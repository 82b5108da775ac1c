import type { Checkpoint, CheckpointTuple } from '@langchain/langgraph-checkpoint';
import type pg from 'pg';
import { PerdureError } from '../contracts/errors.ts';
import type { Database } from '../postgres/database.ts';
import type { Element } from './element.ts';
import { Identities } from './identities.ts';
import { escapeText, toJsonbText } from './jsonb-text.ts';
import { metadataText } from './reader.ts';
import type { PerdureSaver } from './saver.ts';
import { tablesOf } from './statements.ts';
import { blobColumns, bringElements, dumpBlobs, Packer } from './values.ts';
import { nextVersion } from './versions.ts';

/** The values of channels that a migration changed or added, and the names of those that it removed. */
export type ChannelChanges = { set: Readonly<Record<string, unknown>>; removed: readonly string[] };

/**
 * A checkpoint with other values. Its id and step stay, so tasks and questions that LangGraph derives from them stay
 * what they are; and nodes that have seen a channel's old version have seen its new one, so nothing is triggered.
 */
export function withChanges(checkpoint: Checkpoint, { set, removed }: ChannelChanges): Checkpoint {
  const versions = { ...checkpoint.channel_versions };
  const values = { ...checkpoint.channel_values };
  const renewed = new Map<string, { from: string | number | undefined; to: number }>();
  const highest = Math.max(0, ...Object.values(versions).map(Number));
  for (const [channel, value] of Object.entries(set)) {
    const to = nextVersion(highest);
    renewed.set(channel, { from: versions[channel], to });
    versions[channel] = to;
    values[channel] = value;
  }
  for (const channel of removed) {
    delete versions[channel];
    delete values[channel];
  }
  const seen = Object.entries(checkpoint.versions_seen).map(([node, channels]) => [
    node,
    Object.fromEntries(
      Object.entries(channels).map(([channel, version]) => {
        const change = renewed.get(channel);
        return [channel, change !== undefined && change.from === version ? change.to : version];
      }),
    ),
  ]);
  return {
    ...checkpoint,
    channel_versions: versions,
    channel_values: values,
    versions_seen: Object.fromEntries(seen) as Checkpoint['versions_seen'],
  };
}

/** The thread's newest checkpoint as it is to be, ready to be written. */
export type MigratedHead = {
  threadId: string;
  headId: string;
  /** The id under which the state as it was is kept, as the parent. */
  keptId: string;
  checkpointText: string;
  metadataText: string;
  /** Parameters of the statement that writes the values. */
  blobs: unknown[];
  /** The elements that they refer to. */
  elements: ReadonlyMap<string, Element>;
};

/** @throws UnserializableValueError for a value that can't be stored. */
export async function prepareMigratedHead(
  saver: PerdureSaver,
  threadId: string,
  head: CheckpointTuple,
  migrated: { checkpoint: Checkpoint; metadata: unknown; changed: readonly string[] },
): Promise<MigratedHead> {
  const { channel_values: values, ...rest } = migrated.checkpoint;
  const versions = Object.fromEntries(
    migrated.changed.flatMap((channel) => {
      const version = rest.channel_versions[channel];
      return version === undefined ? [] : [[channel, version]];
    }),
  );
  const packer = new Packer();
  // All elements are brought: it is not known which are stored.
  const knowledge = { identities: new Identities(), isStored: () => false };
  const { rows, elements } = await dumpBlobs(saver.serde, knowledge, values, versions);
  const columns = blobColumns(rows, packer);
  const parent: unknown = head.parentConfig?.configurable?.['checkpoint_id'];
  return {
    threadId,
    headId: head.checkpoint.id,
    keptId: idBetween(typeof parent === 'string' ? parent : '', head.checkpoint.id),
    checkpointText: toJsonbText(rest),
    metadataText: metadataText(migrated.metadata),
    blobs: [packer.data(), ...columns],
    elements,
  };
}

/** Writes it; the transaction has locked the thread's row. */
export async function writeMigratedHead(
  client: pg.PoolClient,
  database: Database,
  head: MigratedHead,
): Promise<void> {
  const { checkpoints, blobs } = tablesOf(database);
  const at = [head.threadId, head.headId, head.keptId];
  await client.query(
    `INSERT INTO ${checkpoints} (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata)
     SELECT thread_id, checkpoint_ns, $3, parent_checkpoint_id, type, jsonb_set(checkpoint, '{id}', to_jsonb($3::text)), metadata
     FROM ${checkpoints} WHERE thread_id = $1 AND checkpoint_ns = '' AND checkpoint_id = $2`,
    at,
  );
  await client.query(
    `INSERT INTO ${blobs} (thread_id, checkpoint_ns, channel, version, type, blob)
     SELECT $1, $2, x.channel, x.version, x.type, substring($3::bytea FROM x.at FOR x.size)
     FROM unnest($4::text[], $5::text[], $6::text[], $7::int[], $8::int[]) AS x(channel, version, type, at, size)`,
    [head.threadId, escapeText(''), ...head.blobs],
  );
  if (head.elements.size > 0) await client.query(bringElements(database, head.threadId, head.elements));
  await client.query(
    `UPDATE ${checkpoints} SET parent_checkpoint_id = $3, checkpoint = $4, metadata = $5
     WHERE thread_id = $1 AND checkpoint_ns = '' AND checkpoint_id = $2`,
    [...at, head.checkpointText, head.metadataText],
  );
}

/** A UUID's first 24 characters hold LangGraph's time and counter, the last twelve a random node. */
const HEX_NODE = /^([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-)([0-9a-f]{12})$/;

/**
 * An id that sorts between a checkpoint and its parent, since newer means greater: only the random part differs.
 * @throws PerdureError when there is none, after some forty migrations of one checkpoint.
 */
export function idBetween(parent: string, id: string): string {
  const match = HEX_NODE.exec(id);
  const [, time = '', node = ''] = match ?? [];
  const lowest = parent.startsWith(time) && match ? BigInt(`0x${HEX_NODE.exec(parent)?.[2] ?? '0'}`) : 0n;
  const between = match ? (lowest + BigInt(`0x${node}`)) / 2n : lowest;
  if (between <= lowest)
    throw new PerdureError(
      'CHECKPOINT_ID_UNFIT',
      `No id lies between checkpoint '${id}' and its parent '${parent}'. Let the thread take a step under its version first.`,
      { checkpoint_id: id, parent_checkpoint_id: parent },
    );
  return `${time}${between.toString(16).padStart(12, '0')}`;
}
