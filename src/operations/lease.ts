import { setTimeout as delay } from 'node:timers/promises';
import { PerdureError, StaleFenceError } from '../contracts/errors.ts';
import type { ErrorRecord } from '../contracts/json.ts';
import { isUnavailable } from '../postgres/failures.ts';
import type { StoredResult } from './result-codec.ts';
import type { RunContext } from './run-context.ts';

/**
 * How long a worker that says nothing is believed to be at work on an operation, in ms. It says so every third of
 * it. After a crash nobody runs the operation for this long; long pauses of a process (a debugger, a suspended
 * machine) have to stay below it.
 */
export const LEASE = 5_000;

/** How long the record of a finished operation is tried again while Postgres is away, in ms. */
const RECORD_PATIENCE = 10_000;

/** What became of an operation that this attempt ran. */
export type Outcome =
  | { status: 'succeeded'; result: StoredResult | undefined; error: ErrorRecord | undefined }
  | { status: 'failed' | 'unknown'; error: ErrorRecord };

/** One attempt's hold on an operation. Every write goes by the token alone, so that only the holder's count. */
export class Lease {
  readonly #run: RunContext;
  readonly #operationId: string;
  readonly #token: string;
  readonly #leaseMs: number;
  #renewal: ReturnType<typeof setInterval> | undefined;
  #renewedAt = performance.now();

  constructor(run: RunContext, operationId: string, token: string, leaseMs: number) {
    this.#run = run;
    this.#operationId = operationId;
    this.#token = token;
    this.#leaseMs = leaseMs;
  }

  /**
   * Renews until {@link stop}. `onLoss` hears why the operation should stop: the thread has a newer attempt (the
   * lease is kept up nevertheless, since the operation is still at work and nobody else may start it), or the lease
   * was lost.
   */
  keep(onLoss: (reason: Error) => void): void {
    this.#renewal = setInterval(() => void this.#renew(onLoss), this.#leaseMs / 3);
    this.#renewal.unref();
  }

  stop(): void {
    clearInterval(this.#renewal);
  }

  async #renew(onLoss: (reason: Error) => void): Promise<void> {
    const begun = performance.now();
    try {
      const { rows } = await this.#run.database.prepared<{ fenced: boolean | null }>(
        `UPDATE ${this.#run.database.table('operations')}
        SET lease_until = now() + $4 * interval '1 millisecond'
        WHERE tenant_id = $1 AND operation_id = $2 AND lease_token = $3 AND status = 'running'
        RETURNING (SELECT fence = $6::bigint FROM ${this.#run.database.table('threads')}
          WHERE tenant_id = $1 AND thread_id = $5 AND deleted_at IS NULL) AS fenced`,
        [...this.#key(), this.#leaseMs, this.#run.threadId, this.#run.fence],
      );
      const row = rows[0];
      if (row === undefined) {
        this.stop();
        onLoss(this.#lost('somebody else took it over'));
        return;
      }
      this.#renewedAt = begun;
      if (row.fenced !== true)
        onLoss(new StaleFenceError(this.#run.threadId, { operation_id: this.#operationId }));
    } catch (error) {
      if (!isUnavailable(error)) {
        onLoss(this.#lost(error instanceof Error ? error.message : String(error)));
        return;
      }
      // Postgres may be back before the lease is past; after that somebody else may have it.
      if (performance.now() - this.#renewedAt > this.#leaseMs)
        onLoss(this.#lost("it couldn't be renewed in time"));
    }
  }

  /**
   * Records the outcome, whatever the thread's fence: it is the truth about an effect.
   * @throws PerdureError OPERATION_LEASE_LOST when somebody else has the operation by now.
   * @throws StorageUnavailableError when Postgres stays away; the lease lapses then, and the operation is unknown.
   */
  async record(outcome: Outcome): Promise<void> {
    const result = outcome.status === 'succeeded' ? outcome.result : undefined;
    const recorded = await this.#insist(
      `UPDATE ${this.#run.database.table('operations')}
      SET status = $4, result_type = $5, result = $6, error = $7::json, finished_at = now(), lease_until = NULL
      WHERE tenant_id = $1 AND operation_id = $2 AND lease_token = $3
        AND (status IN ('running', 'unknown') OR status = $4)`,
      [
        outcome.status,
        result?.type ?? null,
        result?.bytes ?? null,
        outcome.error ? JSON.stringify(outcome.error) : null,
      ],
    );
    if (!recorded) throw this.#lost('it finished after somebody else had taken it over');
  }

  /** Lets the operation go before its effect began: the attempt doesn't count. */
  async release(): Promise<void> {
    await this.#insist(
      `UPDATE ${this.#run.database.table('operations')}
      SET status = 'pending', attempts = attempts - 1, lease_token = NULL, lease_until = NULL, started_at = NULL
      WHERE tenant_id = $1 AND operation_id = $2 AND lease_token = $3 AND status = 'running'`,
      [],
    );
  }

  /** Runs one statement by the token, again while Postgres is away. False when the token holds nothing. */
  async #insist(text: string, values: unknown[]): Promise<boolean> {
    const deadline = performance.now() + RECORD_PATIENCE;
    for (let pause = 100; ; pause = Math.min(pause * 2, 1_000)) {
      try {
        const { rowCount } = await this.#run.database.prepared(text, [...this.#key(), ...values]);
        return rowCount === 1;
      } catch (error) {
        if (!isUnavailable(error) || performance.now() + pause > deadline) throw error;
        await delay(pause);
      }
    }
  }

  #key(): [string, string, string] {
    return [this.#run.tenantId, this.#operationId, this.#token];
  }

  #lost(why: string): PerdureError {
    return new PerdureError(
      'OPERATION_LEASE_LOST',
      `The lease of operation '${this.#operationId}' was lost: ${why}.`,
      {
        operation_id: this.#operationId,
      },
    );
  }
}
