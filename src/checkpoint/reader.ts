import {
  type BaseCheckpointSaver,
  type Checkpoint,
  type CheckpointListOptions,
  type CheckpointPendingWrite,
  type CheckpointTuple,
  compareWritesSortKeys,
  type DeltaChannelHistory,
  maxChannelVersion,
  type SerializerProtocol,
  TASKS,
  writesSortKey,
} from '@langchain/langgraph-checkpoint';
import { InvalidInputError } from '../contracts/errors.ts';
import type { Database } from '../postgres/database.ts';
import { checkId, escapeText, fromJsonbText, toJsonbText, unescapeText } from './jsonb-text.ts';
import type { Element } from './element.ts';
import {
  type DeltaRow,
  type Found,
  key,
  sortRows,
  storedElement,
  type StoredValue,
  storedValue,
  type StoredWrite,
  type TupleRow,
} from './rows.ts';
import { ElementCache } from './element-cache.ts';
import { ElementSource, type Stored } from './element-source.ts';
import { Identities } from './identities.ts';
import { withRetries } from './retry.ts';
import { PerdureSerializer } from './serializer.ts';
import { type RunOutput, withoutOutput } from './run-output.ts';
import { type Statement, type Statements, tablesOf } from './statements.ts';
import { nextVersion } from './versions.ts';

export type Configurable = Parameters<BaseCheckpointSaver['getTuple']>[0];

/** Checkpoints that `list` fetches at a time: the first page is short, since most readers stop early. */
const PAGES = [10, 50] as const;

/** The form of checkpoints whose `Send`s are values of a channel; before it they were writes of the parent. */
const SENDS_IN_CHANNEL = 4;

/** Writes metadata and filters; LangGraph's serializer may be somebody else's and need not write JSON. */
const metadataSerializer = new PerdureSerializer();

/** Metadata as the column's text. @throws UnserializableValueError naming `metadata` and the path. */
export function metadataText(metadata: unknown): string {
  return toJsonbText(metadataSerializer.toTree(metadata, 'metadata'));
}

/** Checkpoints so old are older than elements are. */
const NO_ELEMENTS = new ElementSource([], new Identities(), undefined);

/** Reads checkpoints, each call in as few queries as it can. */
export class CheckpointReader {
  readonly #database: Database;
  readonly #statements: Statements;
  readonly #serde: () => SerializerProtocol;
  readonly #identities: Identities;
  readonly #retryForMs: number;
  readonly #cache = new ElementCache();

  constructor(
    database: Database,
    statements: Statements,
    serde: () => SerializerProtocol,
    identities: Identities,
    retryForMs: number,
  ) {
    this.#database = database;
    this.#statements = statements;
    this.#serde = serde;
    this.#identities = identities;
    this.#retryForMs = retryForMs;
  }

  /** The output that was kept with a checkpoint, or else the values of its channels. Undefined: no such checkpoint. */
  async output(config: Configurable): Promise<RunOutput | undefined> {
    const tuple = await this.#read(config);
    return tuple && (withoutOutput(tuple.pendingWrites ?? []).output ?? tuple.checkpoint.channel_values);
  }

  /** @param stored takes the hashes of the elements that are stored with the thread, as far as the read shows them. */
  async getTuple(config: Configurable, stored?: Stored): Promise<CheckpointTuple | undefined> {
    const tuple = await this.#read(config, stored);
    return tuple && visible(tuple);
  }

  async #read(config: Configurable, stored?: Stored): Promise<CheckpointTuple | undefined> {
    const { thread_id: threadId, checkpoint_ns: ns, checkpoint_id: id } = identify(config);
    if (threadId === undefined) return undefined;
    const values: unknown[] = [threadId, escapeText(ns ?? '')];
    if (id !== undefined) values.push(id);
    const before = this.#cache.get(threadId);
    values.push(before.roots.map((hash) => Buffer.from(hash, 'hex')));
    const statement = this.#statements.getTuple(id === undefined ? 'latest' : 'one', this.#asText());
    const found = sortRows(await this.#rows<TupleRow>(statement, values));
    this.#cache.keep(threadId, before, found.elements, found.roots);
    const places = [before.elements, found.elements];
    const [tuple] = await this.#tuples(found, new ElementSource(places, this.#identities, stored));
    return tuple;
  }

  async *list(config: Configurable, options: CheckpointListOptions = {}): AsyncGenerator<CheckpointTuple> {
    const { before, filter } = options;
    let left = options.limit ?? Number.POSITIVE_INFINITY;
    if (!(left >= 0 && (Number.isInteger(left) || left === Number.POSITIVE_INFINITY)))
      throw new InvalidInputError(
        `A limit of ${String(left)} makes no sense: give a whole number from 0 on.`,
        {
          limit: String(left),
        },
      );
    const conditions: string[] = [];
    const values: unknown[] = [];
    const add = (condition: (parameter: string) => string, value: unknown) => {
      values.push(value);
      conditions.push(condition(`$${values.length}`));
    };
    const { thread_id: threadId, checkpoint_ns: ns, checkpoint_id: id } = identify(config);
    if (threadId !== undefined) add((p) => `cp.thread_id = ${p}`, threadId);
    if (ns !== undefined) add((p) => `cp.checkpoint_ns = ${p}`, escapeText(ns));
    if (id !== undefined) add((p) => `cp.checkpoint_id = ${p}`, id);
    if (filter && Object.keys(filter).length > 0)
      add((p) => `cp.metadata @> ${p}::jsonb`, metadataText(filterOf(filter)));
    const bound: unknown = before?.configurable?.checkpoint_id;
    if (bound !== undefined) add((p) => `cp.checkpoint_id < ${p}`, checkId('before.checkpoint_id', bound));
    for (let page = 0; left > 0; page += 1) {
      const size = Math.min(left, PAGES[Math.min(page, PAGES.length - 1)] ?? 1);
      const statement = this.#statements.list(
        conditions.join(' AND '),
        `$${values.length + 1}`,
        `$${values.length + 2}`,
        this.#asText(),
      );
      const found = sortRows(await this.#rows<TupleRow>(statement, [...values, size, []]));
      const source = new ElementSource([found.elements], this.#identities, undefined);
      const tuples = await this.#tuples(found, source);
      yield* tuples.map(visible);
      const last = tuples.at(-1)?.config.configurable;
      if (tuples.length < size || last === undefined) return;
      left -= tuples.length;
      if (page === 0) {
        const first = values.length + 1;
        conditions.push(
          `(cp.checkpoint_id, cp.thread_id, cp.checkpoint_ns) < ($${first}, $${first + 1}, $${first + 2})`,
        );
      } else values.splice(-3);
      values.push(last.checkpoint_id, last.thread_id, escapeText(last.checkpoint_ns as string));
    }
  }

  /** One query, however long the history is. */
  async deltaHistory(
    config: Configurable,
    channels: readonly string[],
    stored?: Stored,
  ): Promise<Record<string, DeltaChannelHistory>> {
    const { thread_id: threadId, checkpoint_ns: ns, checkpoint_id: id } = identify(config);
    if (channels.length === 0 || threadId === undefined)
      return Object.fromEntries(channels.map((channel) => [channel, { writes: [] }]));
    const values: unknown[] = [threadId, escapeText(ns ?? '')];
    if (id !== undefined) values.push(id);
    values.push([...new Set(channels)].map(escapeText));
    const before = this.#cache.get(threadId);
    values.push(before.roots.map((hash) => Buffer.from(hash, 'hex')));
    const statement = this.#statements.deltaHistory(id === undefined ? 'latest' : 'one', this.#asText());
    const bases = new Map<string, StoredValue>();
    const writes: (StoredWrite & { depth: number })[] = [];
    const elements = new Map<string, Element>();
    for (const [kind, depth, taskId, channel, type, taskPath, idx, text, bytes] of await this.#rows<DeltaRow>(
      statement,
      values,
    )) {
      const value = storedValue(type, text, bytes);
      const name = unescapeText(channel);
      if (kind === 3) elements.set(channel, storedElement(channel, value));
      else if (kind === 1) bases.set(name, value);
      else
        writes.push({
          ...value,
          depth,
          taskId: taskId ?? '',
          channel: name,
          taskPath: unescapeText(taskPath ?? ''),
          idx: idx ?? 0,
        });
    }
    const roots = [...bases.values(), ...writes].flatMap(({ refs }) => refs ?? []);
    this.#cache.keep(threadId, before, elements, roots);
    const source = new ElementSource([before.elements, elements], this.#identities, stored);
    const seeds = new Map<string, unknown>();
    for (const [name, value] of bases) seeds.set(name, await this.#load(value, source));
    // The oldest ancestor first, and within one as LangGraph applies a superstep's writes.
    writes.sort((a, b) => b.depth - a.depth || compareWrites(a, b));
    const loaded = await Promise.all(writes.map((write) => this.#loadWrite(write, source)));
    return Object.fromEntries(
      channels.map((channel) => {
        const own = loaded.filter(([, name]) => name === channel);
        return [channel, seeds.has(channel) ? { writes: own, seed: seeds.get(channel) } : { writes: own }];
      }),
    );
  }

  /** The writes of one task, as stored under a checkpoint. */
  async taskWrites(
    threadId: string,
    ns: string,
    checkpointId: string,
    taskId: string,
  ): Promise<CheckpointPendingWrite[]> {
    const before = this.#cache.get(threadId);
    const roots = before.roots.map((hash) => Buffer.from(hash, 'hex'));
    const statement = this.#statements.taskWrites(this.#asText());
    const values = [threadId, escapeText(ns), checkpointId, taskId, roots];
    const found = sortRows(await this.#rows<TupleRow>(statement, values));
    const source = new ElementSource([before.elements, found.elements], this.#identities, undefined);
    const writes = [...found.writes.values()].flat().sort(compareWrites);
    return Promise.all(writes.map((write) => this.#loadWrite(write, source)));
  }

  #asText(): boolean {
    return this.#serde() instanceof PerdureSerializer;
  }

  async #rows<R extends unknown[]>(statement: Statement, values: unknown[]): Promise<R[]> {
    return withRetries(this.#database, this.#retryForMs, async () => {
      const { rows } = await this.#database.pool.query<R>({ ...statement, values, rowMode: 'array' });
      return rows;
    });
  }

  #load({ type, data, refs }: StoredValue, source: ElementSource): unknown {
    const serde = this.#serde();
    if (refs) return source.value(String(data), refs);
    return serde instanceof PerdureSerializer ? serde.load(type, data) : serde.loadsTyped(type, data);
  }

  async #loadWrite(write: StoredWrite, source: ElementSource): Promise<CheckpointPendingWrite> {
    return [write.taskId, write.channel, await this.#load(write, source)];
  }

  async #tuples({ heads, blobs, writes }: Found, source: ElementSource): Promise<CheckpointTuple[]> {
    return Promise.all(
      heads.map((row) => this.#tuple(row, blobs, writes.get(key(row[1], row[2], row[3])) ?? [], source)),
    );
  }

  async #tuple(
    row: TupleRow,
    blobs: ReadonlyMap<string, StoredValue>,
    writes: StoredWrite[],
    source: ElementSource,
  ): Promise<CheckpointTuple> {
    const [, threadId, storedNs, id, parent, checkpointJson, metadataJson] = row;
    const ns = unescapeText(storedNs);
    const stored = fromJsonbText(checkpointJson ?? '{}') as Partial<Checkpoint> & {
      v: number;
      id: string;
      ts: string;
    };
    const versions = stored.channel_versions ?? {};
    const values: Record<string, unknown> = {};
    for (const [channel, version] of Object.entries(versions)) {
      const blob = blobs.get(key(threadId, storedNs, escapeText(channel), String(version)));
      if (blob) define(values, channel, await this.#load(blob, source));
    }
    const checkpoint: Checkpoint = {
      ...stored,
      channel_versions: versions,
      versions_seen: stored.versions_seen ?? {},
      channel_values: values,
    };
    if (checkpoint.v < SENDS_IN_CHANNEL && parent !== null)
      await this.#addPendingSends(checkpoint, threadId, storedNs, parent);
    const at = (checkpointId: string) => ({
      configurable: { thread_id: threadId, checkpoint_ns: ns, checkpoint_id: checkpointId },
    });
    const tree = fromJsonbText(metadataJson ?? '{}');
    const metadata = await metadataSerializer.fromTree(tree, metadataJson ?? '{}');
    return {
      config: at(id),
      checkpoint,
      metadata: metadata as NonNullable<CheckpointTuple['metadata']>,
      ...(parent === null ? {} : { parentConfig: at(parent) }),
      pendingWrites: await Promise.all(
        writes.sort(compareWrites).map((write) => this.#loadWrite(write, source)),
      ),
    };
  }

  /** Old checkpoints have the `Send`s among the parent's writes. */
  async #addPendingSends(
    checkpoint: Checkpoint,
    threadId: string,
    ns: string,
    parent: string,
  ): Promise<void> {
    const { rows } = await withRetries(this.#database, this.#retryForMs, () =>
      this.#database.pool.query<{ type: string; blob: Buffer }>(
        `SELECT type, blob FROM ${tablesOf(this.#database).writes}
         WHERE thread_id = $1 AND checkpoint_ns = $2 AND checkpoint_id = $3 AND channel = $4 ORDER BY task_id, idx`,
        [threadId, ns, parent, TASKS],
      ),
    );
    if (rows.length === 0) return;
    checkpoint.channel_values[TASKS] = await Promise.all(
      rows.map(async ({ type, blob }) => this.#load({ type, data: blob }, NO_ELEMENTS)),
    );
    const versions = Object.values(checkpoint.channel_versions);
    checkpoint.channel_versions[TASKS] =
      versions.length > 0 ? maxChannelVersion(...versions) : nextVersion(undefined);
  }
}

function visible(tuple: CheckpointTuple): CheckpointTuple {
  return { ...tuple, pendingWrites: withoutOutput(tuple.pendingWrites ?? []).writes };
}

/** What a config names, checked. An empty checkpoint id or thread id names nothing, as with the shipped saver. */
function identify(config: Configurable): {
  thread_id?: string;
  checkpoint_ns?: string;
  checkpoint_id?: string;
} {
  const {
    thread_id: threadId,
    checkpoint_ns: ns,
    checkpoint_id: id,
  } = (config.configurable ?? {}) as Record<string, unknown>;
  return {
    ...(threadId ? { thread_id: checkId('thread_id', threadId) } : {}),
    ...(typeof ns === 'string' ? { checkpoint_ns: ns } : {}),
    ...(id ? { checkpoint_id: checkId('checkpoint_id', id) } : {}),
  };
}

/** Undefined in a filter asks nothing, as with the shipped saver. */
function filterOf(filter: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(filter).filter(([, value]) => value !== undefined));
}

function compareWrites(a: StoredWrite, b: StoredWrite): number {
  return compareWritesSortKeys(
    writesSortKey(a.taskPath, a.taskId, a.idx),
    writesSortKey(b.taskPath, b.taskId, b.idx),
  );
}

function define(target: Record<string, unknown>, name: string, value: unknown): void {
  if (name === '__proto__')
    Object.defineProperty(target, name, { value, enumerable: true, writable: true, configurable: true });
  else target[name] = value;
}
