import { type Database, statementName } from '../postgres/database.ts';
import { HASH_BYTES, hasRefsSql, REFS_TYPE, refsSql } from './element.ts';
import { TEXT_TYPES } from './serializer.ts';

/** A statement that each connection parses once. The name is bound to the text, so one pool may serve two schemas. */
export type Statement = { name: string; text: string };

/**
 * What must hold of the thread for a write, checked by the statement that writes:
 * - `attempt-head`: the fence is the attempt's and the head the one it built on; moves the head (root checkpoints).
 * - `attempt`: the fence is the attempt's (task writes, nested checkpoints).
 * - `attempt-task`: the same, and the attempt is the newest on its task.
 * - `free-head`, `free`: the same for a saver used alone: the thread is not deleted, or unknown to the runtime. Where the
 *   fence was raised while the statement waited for the row, it is refused: elements that it counts on may be gone.
 * - `none`: the database has no table of threads.
 */
export type Gate = 'attempt-head' | 'attempt' | 'attempt-task' | 'free-head' | 'free' | 'none';

export type Statements = {
  putCheckpoint(gate: Gate, withWrites: boolean, withElements: boolean): Statement;
  putWrites(gate: Gate, withElements: boolean): Statement;
  /** Which of the hashes $2 are not stored with thread $1. */
  missingElements(): Statement;
  /**
   * Reading statements take, last, the roots of the elements that the reader has; see element-cache.ts.
   * Elements come as rows of the kind 3.
   */
  /** One checkpoint: $1 thread, $2 namespace, $3 checkpoint id (`one`). */
  getTuple(which: 'one' | 'latest', asText: boolean): Statement;
  /** `where` and `limit` are SQL over `cp` with the parameters that the caller numbers. */
  list(where: string, limit: string, roots: string, asText: boolean): Statement;
  deltaHistory(which: 'one' | 'latest', asText: boolean): Statement;
  /** The writes of one task: $1 thread, $2 namespace, $3 checkpoint id, $4 task id, and the roots. */
  taskWrites(asText: boolean): Statement;
};

export function makeStatements(database: Database): Statements {
  const kept = new Map<string, Statement>();
  const keep = (key: string, build: () => string): Statement => {
    let statement = kept.get(key);
    if (!statement) {
      const text = build();
      statement = { name: statementName(text), text };
      kept.set(key, statement);
    }
    return statement;
  };
  const tables = tablesOf(database);
  return {
    putCheckpoint: (gate, withWrites, withElements) =>
      keep(`put ${gate} ${withWrites} ${withElements}`, () =>
        putCheckpointText(tables, gate, withWrites, withElements),
      ),
    putWrites: (gate, withElements) =>
      keep(`writes ${gate} ${withElements}`, () => putWritesText(tables, gate, withElements)),
    missingElements: () =>
      keep('missing', () => {
        const stored = `(SELECT 1 FROM ${tables.elements} e WHERE e.thread_id = $1 AND e.hash = u.hash)`;
        return `SELECT encode(u.hash, 'hex') AS hash FROM unnest($2::bytea[]) AS u(hash) WHERE NOT EXISTS ${stored}`;
      }),
    getTuple: (which, asText) =>
      keep(`get ${which} ${asText}`, () =>
        tuplesText(tables, oneCheckpoint(which), '1', which === 'one' ? '$4' : '$3', asText),
      ),
    list: (where, limit, roots, asText) =>
      keep(`list ${where} ${limit} ${asText}`, () => tuplesText(tables, where, limit, roots, asText)),
    taskWrites: (asText) => keep(`task writes ${asText}`, () => taskWritesText(tables, asText)),
    deltaHistory: (which, asText) => keep(`delta ${which} ${asText}`, () => deltaText(tables, which, asText)),
  };
}

type Tables = {
  checkpoints: string;
  blobs: string;
  writes: string;
  elements: string;
  threads: string;
  taskAttempts: string;
};

export function tablesOf(database: Database): Tables {
  return {
    checkpoints: database.table('checkpoints'),
    blobs: database.table('checkpoint_blobs'),
    writes: database.table('checkpoint_writes'),
    elements: database.table('checkpoint_elements'),
    threads: database.table('threads'),
    taskAttempts: database.table('task_attempts'),
  };
}

/**
 * $1 thread, then: `attempt*` $2 fence; `*-head` the next two: the new head, and (attempt) the expected one.
 * @param withElements shut as well while an element is missing that the statement counts on.
 */
function gateText(tables: Tables, gate: Gate, withElements: boolean): { text: string; parameters: number } {
  const { threads } = tables;
  const complete = withElements ? ' AND NOT EXISTS (SELECT 1 FROM missing)' : '';
  const moveHead = (head: string, version: string) =>
    `UPDATE ${threads} SET head_checkpoint_id = ${head}, updated_at = now(),
       state_version = state_version + CASE WHEN head_checkpoint_id IS NOT DISTINCT FROM ${version} THEN 0 ELSE 1 END`;
  const sameFence = ` AND fence = (SELECT fence FROM ${threads} WHERE checkpoint_thread_id = $1)`;
  const freeRest = `SELECT 1 AS ok FROM known UNION ALL
       SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM ${threads} WHERE checkpoint_thread_id = $1)${complete}`;
  switch (gate) {
    case 'attempt-head':
      return {
        text: `gate AS (${moveHead('$3', '$3')}
       WHERE checkpoint_thread_id = $1 AND fence = $2::bigint AND deleted_at IS NULL
         AND (head_checkpoint_id IS NOT DISTINCT FROM $4 OR head_checkpoint_id = $3)${complete}
       RETURNING 1 AS ok)`,
        parameters: 4,
      };
    case 'attempt':
      return {
        text: `gate AS MATERIALIZED (SELECT 1 AS ok FROM ${threads}
       WHERE checkpoint_thread_id = $1 AND fence = $2::bigint AND deleted_at IS NULL${complete} FOR SHARE)`,
        parameters: 2,
      };
    case 'attempt-task':
      return {
        text: `gate AS MATERIALIZED (SELECT 1 AS ok FROM ${threads} t
       JOIN ${tables.taskAttempts} a ON a.tenant_id = t.tenant_id AND a.thread_id = t.thread_id
       WHERE t.checkpoint_thread_id = $1 AND t.fence = $2::bigint AND t.deleted_at IS NULL
         AND a.task_id = $3 AND a.token = $4::uuid${complete} FOR SHARE)`,
        parameters: 4,
      };
    case 'free-head':
      return {
        text: `known AS (${moveHead('GREATEST(head_checkpoint_id, $2)', '$2')}
       WHERE checkpoint_thread_id = $1 AND deleted_at IS NULL${sameFence}${complete} RETURNING 1),
     gate AS (${freeRest})`,
        parameters: 2,
      };
    case 'free':
      return {
        text: `known AS MATERIALIZED (SELECT 1 FROM ${threads}
       WHERE checkpoint_thread_id = $1 AND deleted_at IS NULL${sameFence}${complete} FOR SHARE),
     gate AS (${freeRest})`,
        parameters: 1,
      };
    case 'none':
      return { text: `gate AS (SELECT 1 AS ok WHERE $1::text IS NOT NULL${complete})`, parameters: 1 };
  }
}

function numbered(after: number): () => string {
  let last = after;
  return () => `$${(last += 1)}`;
}

/** Parameters: the gate's, then namespace, data, the rows' arrays. All values lie in `data`, one after the other. */
function insertWrites(tables: Tables, next: () => string, ns: string, data: string): string {
  const columns = ['text', 'text', 'text', 'int', 'text', 'text', 'int', 'int'].map(
    (type) => `${next()}::${type}[]`,
  );
  return `INSERT INTO ${tables.writes} (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, blob)
     SELECT $1, ${ns}, x.cp, x.task, x.path, x.idx, x.channel, x.type, substring(${data}::bytea FROM x.at FOR x.size)
     FROM gate, unnest(${columns.join(', ')}) AS x(cp, task, path, idx, channel, type, at, size)
     ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id, task_id, idx) DO UPDATE
       SET channel = excluded.channel, type = excluded.type, blob = excluded.blob, task_path = excluded.task_path
       WHERE excluded.idx < 0`;
}

/** Elements lie in `data` too: the hash, then the bytes; and the hashes that are counted on, one after the other. */
function elementsText(tables: Tables, next: () => string, data: string): { missing: string; insert: string } {
  const columns = ['int', 'int', 'text'].map((type) => `${next()}::${type}[]`);
  const [at, count] = [next(), next()];
  return {
    // One lookup for each, whatever the planner thinks of the number.
    missing: `missing AS MATERIALIZED (SELECT 1 FROM generate_series(0, ${count}::int - 1) AS g(i)
       WHERE (SELECT 1 FROM ${tables.elements} e WHERE e.thread_id = $1
         AND e.hash = substring(${data}::bytea FROM ${at}::int + ${HASH_BYTES} * g.i FOR ${HASH_BYTES}) LIMIT 1) IS NULL LIMIT 1),
     `,
    insert: `,
     e AS (INSERT INTO ${tables.elements} (thread_id, hash, type, blob)
       SELECT $1, substring(${data}::bytea FROM x.at FOR ${HASH_BYTES}), x.type,
         substring(${data}::bytea FROM x.at + ${HASH_BYTES} FOR x.size)
       FROM gate, unnest(${columns.join(', ')}) AS x(at, size, type)
       ON CONFLICT DO NOTHING)`,
  };
}

function putWritesText(tables: Tables, gate: Gate, withElements: boolean): string {
  const { text, parameters } = gateText(tables, gate, withElements);
  const next = numbered(parameters);
  const ns = next();
  const data = next();
  const writes = insertWrites(tables, next, ns, data);
  const elements = withElements ? elementsText(tables, next, data) : { missing: '', insert: '' };
  return `WITH ${elements.missing}${text},
     w AS (${writes})${elements.insert}
     SELECT 1 FROM gate`;
}

function putCheckpointText(tables: Tables, gate: Gate, withWrites: boolean, withElements: boolean): string {
  const { text, parameters } = gateText(tables, gate, withElements);
  const next = numbered(parameters);
  const ns = next();
  const data = next();
  const [id, parent, checkpoint, metadata] = [next(), next(), next(), next()];
  const columns = ['text', 'text', 'text', 'int', 'int'].map((type) => `${next()}::${type}[]`);
  const writes = withWrites ? `,\n     w AS (${insertWrites(tables, next, ns, data)})` : '';
  const elements = withElements ? elementsText(tables, next, data) : { missing: '', insert: '' };
  return `WITH ${elements.missing}${text},
     b AS (INSERT INTO ${tables.blobs} (thread_id, checkpoint_ns, channel, version, type, blob)
       SELECT $1, ${ns}, x.channel, x.version, x.type, substring(${data}::bytea FROM x.at FOR x.size)
       FROM gate, unnest(${columns.join(', ')}) AS x(channel, version, type, at, size)
       ON CONFLICT DO NOTHING)${writes}${elements.insert}
     INSERT INTO ${tables.checkpoints} (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, checkpoint, metadata)
       SELECT $1, ${ns}, ${id}, ${parent}, ${checkpoint}::jsonb, ${metadata}::jsonb FROM gate
       ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id) DO UPDATE
         SET checkpoint = excluded.checkpoint, metadata = excluded.metadata`;
}

const oneCheckpoint = (which: 'one' | 'latest') =>
  `cp.thread_id = $1 AND cp.checkpoint_ns = $2${which === 'one' ? ' AND cp.checkpoint_id = $3' : ''}`;

/** Text where the bytes are UTF-8, which spares the hexadecimal on the way; bytes for the rest. */
function content(asText: boolean, row: string): string {
  const types = TEXT_TYPES.map((type) => `'${type}'`).join(', ');
  return asText
    ? `CASE WHEN ${row}.type IN (${types}) THEN convert_from(${row}.blob, 'UTF8') END, CASE WHEN ${row}.type NOT IN (${types}) THEN ${row}.blob END`
    : `NULL, ${row}.blob`;
}

/**
 * `need`: the elements that the rows of some CTEs (with `thread_id`, `type` and `blob`) refer to, at any depth, but for
 * `roots` and what is only below them. The lookups have a LIMIT so that each goes by the key; the length, which is
 * always the same, is there for the planner, who would expect millions of rows and turn to its compiler.
 */
export function needText(tables: Tables, values: readonly string[], roots: string): string {
  const wanted = `length(r.hash) = ${HASH_BYTES} AND r.hash <> ALL (${roots}::bytea[])`;
  const first = values.map(
    (cte) => `SELECT v.thread_id, r.hash FROM ${cte} v CROSS JOIN LATERAL ${refsSql('v')} r
       WHERE v.type = '${REFS_TYPE}' AND ${wanted}`,
  );
  return `need(thread_id, hash) AS (
       (${first.join('\n       UNION ALL ')})
       UNION
       SELECT n.thread_id, r.hash FROM need n
       CROSS JOIN LATERAL (SELECT e.blob FROM ${tables.elements} e
         WHERE e.thread_id = n.thread_id AND e.hash = n.hash LIMIT 1) v
       CROSS JOIN LATERAL ${refsSql('v')} r
       WHERE ${hasRefsSql('n.hash')} AND ${wanted})`;
}

function neededText(tables: Tables): string {
  return `need n CROSS JOIN LATERAL (SELECT e.type, e.blob FROM ${tables.elements} e
       WHERE e.thread_id = n.thread_id AND e.hash = n.hash LIMIT 1) e`;
}

/** The columns of the first row give all their types. */
function writeRow(asText: boolean): string {
  return `2 AS kind, w.thread_id, w.checkpoint_ns, w.checkpoint_id, w.task_id, w.type, w.channel, w.task_path, w.idx, ${content(asText, 'w')}`;
}

function elementRow(asText: boolean): string {
  return `3, n.thread_id, '', encode(n.hash, 'hex'), NULL, e.type, NULL, NULL, NULL, ${content(asText, 'e')}`;
}

/** Rows of four kinds: 0 checkpoints, 1 values of channels (each version once), 2 pending writes, 3 elements. */
function tuplesText(tables: Tables, where: string, limit: string, roots: string, asText: boolean): string {
  return `WITH RECURSIVE page AS MATERIALIZED (
       SELECT cp.thread_id, cp.checkpoint_ns, cp.checkpoint_id, cp.parent_checkpoint_id, cp.checkpoint, cp.metadata,
         row_number() OVER (ORDER BY cp.checkpoint_id DESC, cp.thread_id DESC, cp.checkpoint_ns DESC)::int AS place
       FROM ${tables.checkpoints} cp${where === '' ? '' : ` WHERE ${where}`}
       ORDER BY cp.checkpoint_id DESC, cp.thread_id DESC, cp.checkpoint_ns DESC LIMIT ${limit}),
     versions AS (
       SELECT DISTINCT p.thread_id, p.checkpoint_ns, v.key, v.value
       FROM page p, jsonb_each_text(p.checkpoint -> 'channel_versions') v),
     b AS MATERIALIZED (
       SELECT b.thread_id, b.checkpoint_ns, b.channel, b.version, b.type, b.blob
       FROM versions v CROSS JOIN LATERAL (SELECT * FROM ${tables.blobs} b WHERE b.thread_id = v.thread_id
         AND b.checkpoint_ns = v.checkpoint_ns AND b.channel = v.key AND b.version = v.value LIMIT 1) b
       WHERE b.type <> 'empty'),
     w AS MATERIALIZED (
       SELECT w.thread_id, w.checkpoint_ns, w.checkpoint_id, w.task_id, w.type, w.channel, w.task_path, w.idx, w.blob
       FROM page p CROSS JOIN LATERAL (SELECT * FROM ${tables.writes} w WHERE w.thread_id = p.thread_id
         AND w.checkpoint_ns = p.checkpoint_ns AND w.checkpoint_id = p.checkpoint_id OFFSET 0) w),
     ${needText(tables, ['b', 'w'], roots)}
     SELECT 0 AS kind, p.thread_id, p.checkpoint_ns, p.checkpoint_id, p.parent_checkpoint_id,
       p.checkpoint::text, p.metadata::text, NULL::text, p.place, NULL::text, NULL::bytea FROM page p
     UNION ALL
     SELECT 1, b.thread_id, b.checkpoint_ns, b.channel, b.version, b.type, NULL, NULL, NULL, ${content(asText, 'b')} FROM b
     UNION ALL
     SELECT ${writeRow(asText)} FROM w
     UNION ALL
     SELECT ${elementRow(asText)} FROM ${neededText(tables)}`;
}

/** Rows of two kinds: 2 the writes of one task, 3 elements. */
function taskWritesText(tables: Tables, asText: boolean): string {
  return `WITH RECURSIVE w AS MATERIALIZED (
       SELECT w.thread_id, w.checkpoint_ns, w.checkpoint_id, w.task_id, w.type, w.channel, w.task_path, w.idx, w.blob
       FROM ${tables.writes} w
       WHERE w.thread_id = $1 AND w.checkpoint_ns = $2 AND w.checkpoint_id = $3 AND w.task_id = $4),
     ${needText(tables, ['w'], '$5')}
     SELECT ${writeRow(asText)} FROM w
     UNION ALL
     SELECT ${elementRow(asText)} FROM ${neededText(tables)}`;
}

/**
 * Joins here and above are lookups (LATERAL, with LIMIT or OFFSET), so that each goes by the key: where one thread fills
 * the tables, the planner would rather scan all that the thread has, at every step of the walk.
 *
 * Walks the parents of a checkpoint until each channel of $3 (`latest`) or $4 (`one`) has met a stored value.
 * Rows of three kinds: 1 the stored values, 2 the writes of the checkpoints walked, with their depth, 3 elements.
 */
function deltaText(tables: Tables, which: 'one' | 'latest', asText: boolean): string {
  const [channels, roots] = which === 'one' ? ['$4', '$5'] : ['$3', '$4'];
  const ancestor = (id: string) => `(SELECT * FROM ${tables.checkpoints} c
         WHERE c.thread_id = $1 AND c.checkpoint_ns = $2 AND c.checkpoint_id = ${id} LIMIT 1)`;
  const stored = (wanted: string) => `ARRAY(
       SELECT u.channel FROM unnest(${wanted}) AS u(channel) WHERE (SELECT b.type FROM ${tables.blobs} b
         WHERE b.thread_id = $1 AND b.checkpoint_ns = $2 AND b.channel = u.channel
           AND b.version = c.checkpoint -> 'channel_versions' ->> u.channel LIMIT 1) <> 'empty')`;
  return `WITH RECURSIVE target AS (
       SELECT cp.parent_checkpoint_id AS id FROM ${tables.checkpoints} cp
       WHERE ${oneCheckpoint(which)} ORDER BY cp.checkpoint_id DESC LIMIT 1),
     chain AS (
       SELECT c.checkpoint_id, c.parent_checkpoint_id, c.checkpoint -> 'channel_versions' AS versions, 1 AS depth,
         ${channels}::text[] AS wanted, ${stored(`${channels}::text[]`)} AS stored
       FROM target t CROSS JOIN LATERAL ${ancestor('t.id')} c
       UNION ALL
       SELECT c.checkpoint_id, c.parent_checkpoint_id, c.checkpoint -> 'channel_versions', chain.depth + 1,
         rest.wanted, ${stored('rest.wanted')}
       FROM chain
       CROSS JOIN LATERAL (
         SELECT ARRAY(SELECT unnest(chain.wanted) EXCEPT SELECT unnest(chain.stored)) AS wanted) rest
       CROSS JOIN LATERAL ${ancestor('chain.parent_checkpoint_id')} c
       WHERE cardinality(rest.wanted) > 0),
     b AS MATERIALIZED (
       SELECT $1 AS thread_id, chain.depth, b.channel, b.type, b.blob
       FROM chain CROSS JOIN LATERAL unnest(chain.stored) AS s(channel)
       CROSS JOIN LATERAL (SELECT * FROM ${tables.blobs} b WHERE b.thread_id = $1 AND b.checkpoint_ns = $2
         AND b.channel = s.channel AND b.version = chain.versions ->> s.channel LIMIT 1) b),
     w AS MATERIALIZED (
       SELECT w.thread_id, chain.depth, w.task_id, w.channel, w.type, w.task_path, w.idx, w.blob
       FROM chain CROSS JOIN LATERAL (SELECT * FROM ${tables.writes} w WHERE w.thread_id = $1
         AND w.checkpoint_ns = $2 AND w.checkpoint_id = chain.checkpoint_id
         AND w.channel = ANY (chain.wanted) OFFSET 0) w),
     ${needText(tables, ['b', 'w'], roots)}
     SELECT 1 AS kind, b.depth, NULL::text, b.channel, b.type, NULL::text, NULL::int, ${content(asText, 'b')} FROM b
     UNION ALL
     SELECT 2, w.depth, w.task_id, w.channel, w.type, w.task_path, w.idx, ${content(asText, 'w')} FROM w
     UNION ALL
     SELECT 3, 0, NULL, encode(n.hash, 'hex'), e.type, NULL, NULL, ${content(asText, 'e')} FROM ${neededText(tables)}`;
}
