import { INTERRUPT } from '@langchain/langgraph-checkpoint';
import type pg from 'pg';
import type { Database } from '../postgres/database.ts';
import { OUTPUT_TASK } from './run-output.ts';
import { needText, tablesOf } from './statements.ts';

export type CheckpointCopy = {
  /** Keys in LangGraph's tables. */
  from: string;
  to: string;
  /** The root checkpoint that the copy ends at. */
  checkpointId: string;
  /** Whether what was written after that checkpoint is copied too: results and questions of its tasks. */
  withWrites: boolean;
};

/**
 * Copies the root checkpoints that lead to one, with those of subgraphs that belong to them, and all that they refer
 * to. Ids stay, so that tasks and questions that LangGraph derives from them stay what they are. Nothing is deleted,
 * and the transaction has to see one state of the tables all along (REPEATABLE READ), so it needs no lock.
 */
export async function copyCheckpoints(
  client: pg.PoolClient,
  database: Database,
  { from, to, checkpointId, withWrites }: CheckpointCopy,
): Promise<void> {
  const tables = tablesOf(database);
  const { checkpoints, blobs, writes, elements } = tables;
  // What a subgraph did after the root checkpoint is under that checkpoint's id.
  await client.query(
    `WITH RECURSIVE chain AS (
       SELECT checkpoint_id, parent_checkpoint_id FROM ${checkpoints}
       WHERE thread_id = $1 AND checkpoint_ns = '' AND checkpoint_id = $3
       UNION ALL
       SELECT c.checkpoint_id, c.parent_checkpoint_id FROM chain CROSS JOIN LATERAL (
         SELECT * FROM ${checkpoints} c WHERE c.thread_id = $1 AND c.checkpoint_ns = ''
           AND c.checkpoint_id = chain.parent_checkpoint_id LIMIT 1) c
     )
     INSERT INTO ${checkpoints} (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata)
     SELECT $2, c.checkpoint_ns, c.checkpoint_id, c.parent_checkpoint_id, c.type, c.checkpoint, c.metadata
     FROM ${checkpoints} c JOIN chain
       ON chain.checkpoint_id = CASE c.checkpoint_ns WHEN '' THEN c.checkpoint_id ELSE c.metadata -> 'parents' ->> '' END
     WHERE c.thread_id = $1 AND (c.checkpoint_ns = '' OR $4 OR chain.checkpoint_id <> $3)`,
    [from, to, checkpointId, withWrites],
  );
  await client.query(
    `INSERT INTO ${blobs} (thread_id, checkpoint_ns, channel, version, type, blob)
     SELECT $2, b.checkpoint_ns, b.channel, b.version, b.type, b.blob
     FROM (SELECT DISTINCT c.checkpoint_ns, v.key, v.value
           FROM ${checkpoints} c, jsonb_each_text(c.checkpoint -> 'channel_versions') v WHERE c.thread_id = $2) v
     CROSS JOIN LATERAL (SELECT * FROM ${blobs} b WHERE b.thread_id = $1 AND b.checkpoint_ns = v.checkpoint_ns
       AND b.channel = v.key AND b.version = v.value LIMIT 1) b`,
    [from, to],
  );
  await client.query(
    `INSERT INTO ${writes} (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, blob)
     SELECT $2, w.checkpoint_ns, w.checkpoint_id, w.task_id, w.task_path, w.idx, w.channel, w.type, w.blob
     FROM ${checkpoints} c CROSS JOIN LATERAL (SELECT * FROM ${writes} w WHERE w.thread_id = $1
       AND w.checkpoint_ns = c.checkpoint_ns AND w.checkpoint_id = c.checkpoint_id OFFSET 0) w
     WHERE c.thread_id = $2 AND ($4 OR c.checkpoint_ns <> '' OR c.checkpoint_id <> $3 OR w.task_id = $5)`,
    [from, to, checkpointId, withWrites, OUTPUT_TASK],
  );
  const copied = (table: string) =>
    `AS MATERIALIZED (SELECT $1::text AS thread_id, type, blob FROM ${table} WHERE thread_id = $2)`;
  await client.query(
    `WITH RECURSIVE b ${copied(blobs)}, w ${copied(writes)}, ${needText(tables, ['b', 'w'], "'{}'")}
     INSERT INTO ${elements} (thread_id, hash, type, blob)
     SELECT $2, n.hash, e.type, e.blob FROM need n CROSS JOIN LATERAL (
       SELECT e.type, e.blob FROM ${elements} e WHERE e.thread_id = n.thread_id AND e.hash = n.hash LIMIT 1) e`,
    [from, to],
  );
}

/**
 * Takes the questions of some tasks out of a copy, so that the tasks ask again when they run. The task ids are those in
 * the namespaces too: a question stands with every task that it is asked below.
 */
export async function forgetQuestions(
  client: pg.PoolClient,
  database: Database,
  threadId: string,
  tasks: readonly { origin_ns: string; origin_task_id: string }[],
): Promise<void> {
  if (tasks.length === 0) return;
  const ids = tasks.flatMap(({ origin_ns: ns, origin_task_id: id }) => [
    id,
    ...ns.split('|').map((part) => part.slice(part.lastIndexOf(':') + 1)),
  ]);
  await client.query(
    `DELETE FROM ${tablesOf(database).writes} WHERE thread_id = $1 AND channel = $2 AND task_id = ANY ($3)`,
    [threadId, INTERRUPT, ids],
  );
}

export type NamespaceCopy = {
  from: string;
  to: string;
  /** The checkpoint in the namespace that the copy ends at. */
  checkpointId: string;
  /** At which checkpoint each graph around it stands, by namespace. */
  parents: Readonly<Record<string, string>>;
};

/**
 * Copies the checkpoints of subgraphs that lead to one, under the namespaces of other tasks. Repeating it is harmless.
 * @returns false where the attempt no longer holds the newest fence; nothing is copied then.
 */
export async function copyNamespaces(
  database: Database,
  threadId: string,
  fence: number,
  copies: readonly NamespaceCopy[],
): Promise<boolean> {
  const { checkpoints, blobs, writes, threads } = tablesOf(database);
  return database.transaction(async (client) => {
    const held = await client.query(
      `SELECT FROM ${threads} WHERE checkpoint_thread_id = $1 AND fence = $2 AND deleted_at IS NULL FOR SHARE`,
      [threadId, fence],
    );
    if (held.rowCount === 0) return false;
    for (const { from, to, checkpointId, parents } of copies) {
      await client.query(
        `WITH RECURSIVE chain AS (
           SELECT * FROM ${checkpoints} WHERE thread_id = $1 AND checkpoint_ns = $2 AND checkpoint_id = $4
           UNION ALL
           SELECT c.* FROM chain CROSS JOIN LATERAL (
             SELECT * FROM ${checkpoints} c WHERE c.thread_id = $1 AND c.checkpoint_ns = $2
               AND c.checkpoint_id = chain.parent_checkpoint_id LIMIT 1) c
         )
         INSERT INTO ${checkpoints} (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata)
         SELECT $1, $3, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata || jsonb_build_object('parents', $5::jsonb)
         FROM chain ON CONFLICT DO NOTHING`,
        [threadId, from, to, checkpointId, JSON.stringify(parents)],
      );
      await client.query(
        `INSERT INTO ${blobs} (thread_id, checkpoint_ns, channel, version, type, blob)
         SELECT $1, $3, b.channel, b.version, b.type, b.blob
         FROM (SELECT DISTINCT v.key, v.value FROM ${checkpoints} c, jsonb_each_text(c.checkpoint -> 'channel_versions') v
               WHERE c.thread_id = $1 AND c.checkpoint_ns = $3 AND c.checkpoint_id <= $4) v
         CROSS JOIN LATERAL (SELECT * FROM ${blobs} b WHERE b.thread_id = $1 AND b.checkpoint_ns = $2
           AND b.channel = v.key AND b.version = v.value LIMIT 1) b
         ON CONFLICT DO NOTHING`,
        [threadId, from, to, checkpointId],
      );
      await client.query(
        `INSERT INTO ${writes} (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, blob)
         SELECT $1, $3, w.checkpoint_id, w.task_id, w.task_path, w.idx, w.channel, w.type, w.blob
         FROM ${checkpoints} c CROSS JOIN LATERAL (SELECT * FROM ${writes} w WHERE w.thread_id = $1
           AND w.checkpoint_ns = $2 AND w.checkpoint_id = c.checkpoint_id OFFSET 0) w
         WHERE c.thread_id = $1 AND c.checkpoint_ns = $3 AND c.checkpoint_id < $4
         ON CONFLICT DO NOTHING`,
        [threadId, from, to, checkpointId],
      );
    }
    return true;
  });
}

/** Gives a subgraph's checkpoint another step, so that the tasks that follow have the steps that they had without it. */
export async function renumber(
  database: Database,
  threadId: string,
  fence: number,
  at: { ns: string; checkpointId: string; step: number },
): Promise<void> {
  const { checkpoints, threads } = tablesOf(database);
  await database.query(
    `UPDATE ${checkpoints} SET metadata = jsonb_set(metadata, '{step}', to_jsonb($5::int))
     WHERE thread_id = $1 AND checkpoint_ns = $3 AND checkpoint_id = $4 AND EXISTS (
       SELECT FROM ${threads} WHERE checkpoint_thread_id = $1 AND fence = $2 AND deleted_at IS NULL)`,
    [threadId, fence, at.ns, at.checkpointId, at.step],
  );
}
