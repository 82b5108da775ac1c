import { InvalidInputError, UnknownOperationError } from '../contracts/errors.ts';
import { errorRecord, jsonValue } from '../contracts/json.ts';
import type {
  EffectKind,
  OperationResolution,
  OperationStatus,
  OperationView,
} from '../contracts/operations.ts';
import type { Database } from '../postgres/database.ts';
import { storeReported, viewResult } from './result-codec.ts';

export type OperationFilter = {
  /** Operations of the thread and of those it shares its past with. Default: all threads. */
  threadId?: string | undefined;
  status?: OperationStatus | undefined;
  /** The newest ones. Default 100. */
  limit?: number | undefined;
};

type OperationRow = {
  operation_id: string;
  thread_id: string;
  run_id: string | null;
  node: string;
  tool: string;
  tool_call_id: string | null;
  kind: EffectKind;
  status: OperationStatus;
  args: unknown;
  result_type: string | null;
  result: Buffer | null;
  error: unknown;
  attempts: number;
  created_at: Date;
  started_at: Date | null;
  finished_at: Date | null;
  resolved_by: string | null;
};

/** A running operation whose lease is past has nobody at work on it: it is shown as what it is, unknown. */
const COLUMNS = `operation_id, thread_id, run_id, node, tool, tool_call_id, kind,
  CASE WHEN status = 'running' AND lease_until < now() THEN 'unknown' ELSE status END AS status,
  args, result_type, result, error, attempts, created_at, started_at, finished_at, resolved_by`;

/** Undefined when none of that id is recorded. */
export async function getOperation(
  database: Database,
  tenantId: string,
  operationId: string,
): Promise<OperationView | undefined> {
  const { rows } = await database.query<OperationRow>(
    `SELECT ${COLUMNS} FROM ${database.table('operations')} WHERE tenant_id = $1 AND operation_id = $2`,
    [tenantId, operationId],
  );
  return rows[0] === undefined ? undefined : toView(rows[0]);
}

/** In the order in which they were first asked for. */
export async function listOperations(
  database: Database,
  tenantId: string,
  filter: OperationFilter = {},
): Promise<OperationView[]> {
  const { rows } = await database.query<OperationRow>(
    `SELECT * FROM (
      SELECT sequence, ${COLUMNS} FROM ${database.table('operations')}
      WHERE tenant_id = $1 AND ($2::text IS NULL OR thread_id = $2 OR lineage_root = (
        SELECT lineage_root FROM ${database.table('threads')} WHERE tenant_id = $1 AND thread_id = $2))
    ) AS shown
    WHERE $3::text IS NULL OR status = $3
    ORDER BY sequence DESC LIMIT $4`,
    [tenantId, filter.threadId ?? null, filter.status ?? null, filter.limit ?? 100],
  );
  return rows.toReversed().map(toView);
}

/**
 * Records what a person says of an operation whose fate is unknown: it `happened`, with this result, or it did not
 * and may run again (`retry`). Also takes `happened` for one that succeeded but whose result could not be kept.
 * @throws UnknownOperationError when there is none of that id.
 * @throws InvalidInputError, with its status, when its fate is known, or somebody is at work on it.
 */
export async function resolveOperation(
  database: Database,
  tenantId: string,
  operationId: string,
  resolution: OperationResolution,
  by: string,
): Promise<OperationView> {
  const happened = 'happened' in resolution;
  const result = happened ? storeReported(resolution.happened) : undefined;
  const { rowCount } = await database.query(
    `UPDATE ${database.table('operations')}
    SET status = $3, result_type = $4, result = $5, error = NULL, finished_at = CASE WHEN $6 THEN now() END,
      lease_token = NULL, lease_until = NULL, resolved_by = $7, resolved_at = now()
    WHERE tenant_id = $1 AND operation_id = $2
      AND (status = 'unknown' OR (status = 'running' AND lease_until < now())
        OR ($6 AND status = 'succeeded' AND result_type IS NULL))`,
    [
      tenantId,
      operationId,
      happened ? 'succeeded' : 'pending',
      result?.type ?? null,
      result?.bytes ?? null,
      happened,
      by,
    ],
  );
  const operation = await getOperation(database, tenantId, operationId);
  if (operation === undefined) throw new UnknownOperationError(operationId);
  if (rowCount === 1) return operation;
  throw new InvalidInputError(
    `Operation '${operationId}' is ${describe(operation.status)}; there is nothing to resolve.`,
    {
      operation_id: operationId,
      status: operation.status,
    },
  );
}

function describe(status: OperationStatus): string {
  if (status === 'running') return 'running, under a lease that is still good';
  if (status === 'failed') return 'failed, which means that it did not happen';
  return status;
}

function toView(row: OperationRow): OperationView {
  const { result_type: type, result, args, error, ...same } = row;
  return {
    operation_id: same.operation_id,
    thread_id: same.thread_id,
    run_id: same.run_id,
    node: same.node,
    tool: same.tool,
    tool_call_id: same.tool_call_id,
    kind: same.kind,
    status: same.status,
    args: jsonValue.parse(args),
    result: viewResult(type === null ? undefined : { type, bytes: result ?? Buffer.alloc(0) }),
    error: error === null ? null : errorRecord.parse(error),
    attempts: same.attempts,
    created_at: same.created_at.toISOString(),
    started_at: same.started_at?.toISOString() ?? null,
    finished_at: same.finished_at?.toISOString() ?? null,
    resolved_by: same.resolved_by,
  };
}
