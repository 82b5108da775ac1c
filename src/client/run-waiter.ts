import pg from 'pg';
import { isPerdureError } from '../contracts/errors.ts';
import type { Database } from '../postgres/database.ts';

/** How often a waiter looks for itself, in case a notification was lost or can't be had, in ms. */
const POLL_MS = 500;

/** How long Postgres may be away before those who wait are told, in ms. The run itself waits for it longer. */
const OUTAGE_MS = 30_000;

/** A server that refuses the log-in won't change its mind by itself. */
function isOutage(error: unknown): boolean {
  return isPerdureError(error, 'STORAGE_UNAVAILABLE') && error.details['refused'] !== true;
}

/**
 * Waits for runs to end: told by Postgres (`NOTIFY perdure_runs`) over one connection of its own, and looking
 * every half second besides, since a connection pooler may swallow notifications.
 */
export class RunWaiter {
  readonly #database: Database;
  readonly #waiting = new Map<string, Set<() => void>>();
  #listener: Promise<pg.Client> | undefined;

  constructor(database: Database) {
    this.#database = database;
  }

  /** Calls `look` at once, on each notification for the run and every half second, until it gives a value. */
  async until<T>(runId: string, look: () => Promise<T | undefined>, signal?: AbortSignal): Promise<T> {
    await this.#listen().catch(() => undefined);
    let awaySince: number | undefined;
    for (;;) {
      signal?.throwIfAborted();
      const told = this.#nextSign(runId, signal);
      try {
        const value = await look().catch((error: unknown) => {
          awaySince ??= Date.now();
          if (!isOutage(error) || Date.now() - awaySince > OUTAGE_MS) throw error;
          return 'away' as const;
        });
        if (value !== 'away') {
          awaySince = undefined;
          if (value !== undefined) return value;
        }
        await told.promise;
      } finally {
        told.forget();
      }
    }
  }

  async close(): Promise<void> {
    const client = await this.#listener?.catch(() => undefined);
    this.#listener = undefined;
    await client?.end().catch(() => undefined);
  }

  #nextSign(runId: string, signal: AbortSignal | undefined): { promise: Promise<void>; forget(): void } {
    let resolve = () => {};
    const promise = new Promise<void>((done) => {
      resolve = done;
    });
    const waiting = this.#waiting.get(runId) ?? new Set();
    waiting.add(resolve);
    this.#waiting.set(runId, waiting);
    const timer = setTimeout(resolve, POLL_MS);
    signal?.addEventListener('abort', resolve, { once: true });
    return {
      promise,
      forget: () => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', resolve);
        waiting.delete(resolve);
        if (waiting.size === 0) this.#waiting.delete(runId);
      },
    };
  }

  #listen(): Promise<pg.Client> {
    this.#listener ??= this.#connect();
    this.#listener.catch(() => {
      this.#listener = undefined;
    });
    return this.#listener;
  }

  async #connect(): Promise<pg.Client> {
    const client = new pg.Client({ ...this.#database.pool.options, application_name: 'perdure-listen' });
    client.on('notification', (message) => {
      for (const told of this.#waiting.get(message.payload ?? '') ?? []) told();
    });
    // The next until() connects again; those that wait meanwhile look for themselves.
    client.on('error', () => {
      this.#listener = undefined;
    });
    await client.connect();
    await client.query('LISTEN perdure_runs');
    return client;
  }
}
