import type { Database } from '../postgres/database.ts';
import { wakeEverything } from './wake-list.ts';

/**
 * Notices that Postgres has gone back in time: it was put back to a backup, or a standby took over that had not heard
 * everything. Its log position never falls otherwise. Only a process that lived before can tell.
 */
export class RestoreWatch {
  readonly #database: Database;
  readonly #onRestored: (threads: number) => void;
  #highest: string | undefined;
  #reconnected = true;
  /** Whether workflows of threads that Postgres no longer knows are yet to be ended. */
  unsettled = false;

  constructor(database: Database, onRestored: (threads: number) => void) {
    this.#database = database;
    this.#onRestored = onRestored;
    // A server that was put back has dropped every connection.
    database.pool.on('connect', () => {
      this.#reconnected = true;
    });
  }

  /** Costs nothing while connections last. @throws StorageUnavailableError */
  async beforeWork(): Promise<void> {
    if (this.#reconnected) await this.check();
  }

  /** @throws StorageUnavailableError */
  async check(): Promise<void> {
    this.#reconnected = false;
    try {
      const { rows } = await this.#database.query<{ at: string; back: boolean }>(
        `SELECT at::text, coalesce(at < $1::pg_lsn, false) AS back FROM pg_current_wal_flush_lsn() AS at`,
        [this.#highest ?? null],
      );
      const [row] = rows;
      if (row?.back === true) {
        this.#onRestored(await declareRestored(this.#database));
        this.unsettled = true;
      }
      this.#highest = row?.at;
    } catch (error) {
      this.#reconnected = true;
      throw error;
    }
  }
}

/**
 * What has to be done after Postgres was put back: each thread looks for effects before it has new ones, until a run
 * of it has succeeded; and threads whose workflows know more than Postgres are woken. Repeating it is harmless.
 * @returns how many threads there are.
 */
export async function declareRestored(database: Database): Promise<number> {
  const { rowCount } = await database.query(
    `UPDATE ${database.table('threads')} SET in_doubt = true WHERE deleted_at IS NULL AND NOT in_doubt`,
  );
  await wakeEverything(database);
  return rowCount ?? 0;
}
