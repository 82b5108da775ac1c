import { randomUUID } from 'node:crypto';
import type { Database } from '../../src/postgres/database.ts';

/** A far side that counts: a table which takes every effect that it is told of, also the same one twice. */
export type Effects = {
  /** Makes the effect happen. */
  book(operationId: string, label: string): Promise<void>;
  /** Whether an operation's effect happened. */
  happened(operationId: string): Promise<boolean>;
  /** The labels of the effects of one thread, sorted. */
  of(threadId: string): Promise<string[]>;
};

export async function makeEffects(database: Database): Promise<void> {
  await database.query(
    `CREATE TABLE ${database.table('effects')} (id uuid PRIMARY KEY, operation_id text NOT NULL, label text NOT NULL)`,
  );
}

export function effectsIn(database: Database): Effects {
  const table = database.table('effects');
  return {
    async book(operationId, label) {
      await database.query(`INSERT INTO ${table} VALUES ($1, $2, $3)`, [randomUUID(), operationId, label]);
    },
    async happened(operationId) {
      const { rows } = await database.query(`SELECT FROM ${table} WHERE operation_id = $1`, [operationId]);
      return rows.length > 0;
    },
    async of(threadId) {
      const { rows } = await database.query<{ label: string }>(
        // The id of an operation without a business key names its thread.
        `SELECT label FROM ${table} WHERE strpos(operation_id, $1) > 0 ORDER BY label`,
        [threadId],
      );
      return rows.map((row) => row.label);
    },
  };
}
