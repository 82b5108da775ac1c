import { setTimeout as delay } from 'node:timers/promises';
import { errorRecord, type ErrorRecord, type JsonValue } from '../contracts/json.ts';
import type { EffectKind, OperationStatus } from '../contracts/operations.ts';
import type { Database } from '../postgres/database.ts';
import { isUnavailable } from '../postgres/failures.ts';
import type { StoredResult } from './result-codec.ts';
import type { RunContext } from './run-context.ts';

/** What is asked for, ready to be written. */
export type ClaimRequest = {
  operationId: string;
  kind: EffectKind;
  tool: string;
  node: string;
  toolCallId: string | null;
  businessKey: string | null;
  args: JsonValue;
  argsHash: string;
  leaseToken: string;
  leaseMs: number;
  /** The branch that asks; null on a thread that was never forked. */
  branchId: string | null;
  /** The slot, where the operation has an id of its own beside it. */
  slotId: string | null;
};

/** The operation as it was just before the claim. */
export type ExistingOperation = {
  status: OperationStatus;
  argsHash: string;
  attempts: number;
  /** Whether somebody is believed to run it, and for how long from now on, in ms. */
  live: boolean;
  leaseMs: number;
  result: StoredResult | undefined;
  error: ErrorRecord | undefined;
};

/** Whether it is known that the operation has not happened, and nobody is at work on it. */
export function isFree(status: OperationStatus): boolean {
  return status === 'pending' || status === 'failed';
}

export type Claim =
  /** This attempt may not write: a newer one has the thread, or the thread is gone. */
  | { outcome: 'stale'; currentFence: string | null }
  | { outcome: 'claimed'; attempts: number }
  /** Not ours to run, for the reason that `existing` tells. Undefined: somebody inserted it this moment. */
  | { outcome: 'held'; existing: ExistingOperation | undefined };

type ClaimRow = {
  current_fence: string | null;
  fenced: boolean | null;
  claimed_attempts: number | null;
  status: OperationStatus | null;
  args_hash: string;
  attempts: number;
  live: boolean;
  lease_ms: string | null;
  result_type: string | null;
  result: Buffer | null;
  error: unknown;
};

/**
 * One statement: it checks the fence, and inserts the operation or takes it over where that is safe. Taken over is
 * what is known not to have happened (`pending`, `failed`); what is unknown, or running under a lease that is past,
 * where the kind allows it to run again; a `pure` one with other arguments; and our own claim, whose reply was lost.
 * On a thread that is in doubt (Postgres was put back to a backup) what the ledger doesn't have is inserted as `unknown`.
 */
const claimSql = (threads: string, operations: string): string => `
WITH thread AS (
  SELECT fence, in_doubt AND $11 IN ('reconcilable', 'exclusive') AS in_doubt
  FROM ${threads} WHERE tenant_id = $1 AND thread_id = $2 AND deleted_at IS NULL
), claimed AS (
  INSERT INTO ${operations} AS held (
    tenant_id, operation_id, lineage_root, thread_id, run_id, node, tool, tool_call_id, business_key, kind,
    status, args_hash, args, attempts, lease_token, lease_until, started_at, branch_id, slot_id
  )
  SELECT $1, $4, $5, $2, $6::uuid, $7, $8, $9, $10, $11,
    CASE WHEN in_doubt THEN 'unknown' ELSE 'running' END, $12, $13::json, 1,
    CASE WHEN in_doubt THEN NULL ELSE $14::uuid END,
    CASE WHEN in_doubt THEN NULL ELSE now() + $15 * interval '1 millisecond' END, now(), $16, $17
  FROM thread WHERE fence = $3::bigint AND $18::boolean
  ON CONFLICT (tenant_id, operation_id) DO UPDATE SET
    thread_id = EXCLUDED.thread_id, run_id = EXCLUDED.run_id, node = EXCLUDED.node, tool = EXCLUDED.tool,
    tool_call_id = EXCLUDED.tool_call_id, kind = EXCLUDED.kind, status = 'running',
    args_hash = EXCLUDED.args_hash, args = EXCLUDED.args, branch_id = EXCLUDED.branch_id, result_type = NULL, result = NULL, error = NULL,
    attempts = held.attempts + CASE WHEN held.lease_token = $14::uuid THEN 0 ELSE 1 END,
    lease_token = $14::uuid, lease_until = now() + $15 * interval '1 millisecond',
    started_at = now(), finished_at = NULL
  WHERE held.status IN ('pending', 'failed')
    OR (held.status = 'running' AND held.lease_token = $14::uuid)
    OR ((held.status <> 'running' OR held.lease_until < now())
      AND EXCLUDED.kind = 'pure' AND held.args_hash <> EXCLUDED.args_hash)
    OR ((held.status = 'unknown' OR (held.status = 'running' AND held.lease_until < now()))
      AND EXCLUDED.kind IN ('pure', 'idempotent') AND held.args_hash = EXCLUDED.args_hash)
  RETURNING CASE WHEN status = 'running' THEN attempts END AS attempts
)
SELECT
  thread.fence::text AS current_fence, thread.fence = $3::bigint AS fenced, claimed.attempts AS claimed_attempts,
  held.status, held.args_hash, held.attempts, held.result_type, held.result, held.error,
  coalesce(held.status = 'running' AND held.lease_until >= now(), false) AS live,
  (extract(epoch FROM held.lease_until - now()) * 1000)::text AS lease_ms
FROM (SELECT 1) AS always
LEFT JOIN thread ON true
LEFT JOIN claimed ON true
LEFT JOIN ${operations} AS held ON held.tenant_id = $1 AND held.operation_id = $4`;

/** Tries of one claim while Postgres is away, and the pause between them in ms. */
const CLAIM_TRIES = 5;
const CLAIM_PAUSE = 200;

/**
 * @param mayRun False only looks: the operation is not claimed, whatever it is. Default true.
 * @throws StorageUnavailableError when Postgres stays away; a claim that was made all the same lapses.
 */
export async function claimOperation(run: RunContext, request: ClaimRequest, mayRun = true): Promise<Claim> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await claimOnce(run, request, mayRun);
    } catch (error) {
      // The same token again: if the lost reply said yes, this one does too.
      if (!isUnavailable(error) || tries === CLAIM_TRIES) throw error;
      await delay(CLAIM_PAUSE, undefined, { signal: run.signal });
    }
  }
}

async function claimOnce(run: RunContext, request: ClaimRequest, mayRun: boolean): Promise<Claim> {
  const { database } = run;
  const { rows } = await database.prepared<ClaimRow>(
    claimSql(database.table('threads'), database.table('operations')),
    [
      run.tenantId,
      run.threadId,
      run.fence,
      request.operationId,
      run.lineageRoot,
      run.runId,
      storable(request.node),
      storable(request.tool),
      request.toolCallId === null ? null : storable(request.toolCallId),
      request.businessKey === null ? null : storable(request.businessKey),
      request.kind,
      request.argsHash,
      JSON.stringify(request.args),
      request.leaseToken,
      request.leaseMs,
      request.branchId,
      request.slotId,
      mayRun,
    ],
  );
  const row = rows[0];
  if (row?.fenced !== true) return { outcome: 'stale', currentFence: row?.current_fence ?? null };
  if (row.claimed_attempts !== null) return { outcome: 'claimed', attempts: row.claimed_attempts };
  return { outcome: 'held', existing: row.status === null ? undefined : existingOf(row, row.status) };
}

function existingOf(row: ClaimRow, status: OperationStatus): ExistingOperation {
  return {
    status,
    argsHash: row.args_hash,
    attempts: row.attempts,
    live: row.live,
    leaseMs: Number(row.lease_ms ?? 0),
    result:
      row.result_type === null ? undefined : { type: row.result_type, bytes: row.result ?? Buffer.alloc(0) },
    error: row.error === null ? undefined : errorRecord.parse(row.error),
  };
}

/** Postgres keeps no NUL in text; these columns are for people, the id itself is encoded. */
export function storable(text: string): string {
  return text.replaceAll('\u0000', '\ufffd');
}

/** Marks as `unknown` what is running under a lease that is past. False when it moved on meanwhile. */
export async function markLapsed(
  database: Database,
  tenantId: string,
  operationId: string,
  attempts: number,
): Promise<boolean> {
  const { rowCount } = await database.prepared(
    `UPDATE ${database.table('operations')}
    SET status = 'unknown', finished_at = coalesce(finished_at, now())
    WHERE tenant_id = $1 AND operation_id = $2 AND attempts = $3
      AND (status = 'unknown' OR (status = 'running' AND lease_until < now()))`,
    [tenantId, operationId, attempts],
  );
  return rowCount === 1;
}

/** Records what the far side said of an operation whose fate was unknown. False when it moved on meanwhile. */
export async function recordLookup(
  database: Database,
  tenantId: string,
  operationId: string,
  attempts: number,
  result: StoredResult | undefined,
): Promise<boolean> {
  const { rowCount } = await database.prepared(
    `UPDATE ${database.table('operations')}
    SET status = $4, result_type = $5, result = $6, error = NULL, finished_at = now(),
      lease_token = NULL, lease_until = NULL, resolved_by = 'lookup', resolved_at = now()
    WHERE tenant_id = $1 AND operation_id = $2 AND attempts = $3
      AND (status = 'unknown' OR (status = 'running' AND lease_until < now()))`,
    [
      tenantId,
      operationId,
      attempts,
      result ? 'succeeded' : 'failed',
      result?.type ?? null,
      result?.bytes ?? null,
    ],
  );
  return rowCount === 1;
}
