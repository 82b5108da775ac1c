import type { JsonValue } from '../contracts/json.ts';
import {
  operationResolution,
  type OperationResolution,
  type OperationStatus,
} from '../contracts/operations.ts';
import { askBeforeNewEffect, newEffectQuestionId } from './ask-person.ts';
import { isFree, storable, type ClaimRequest } from './claim.ts';
import { branchOperationId } from './operation-id.ts';
import { storeReported } from './result-codec.ts';
import type { Branch, RunContext } from './run-context.ts';

/**
 * Which operation of a slot a branch asks for: the one on record with these arguments, whichever branch made it; else
 * the slot's own while nothing happened under it; else one of this branch. A business key names one operation
 * everywhere.
 */
export async function inBranch(run: RunContext, branch: Branch, claim: ClaimRequest): Promise<ClaimRequest> {
  const asked = { ...claim, branchId: branch.id };
  if (claim.businessKey !== null) return asked;
  const { database, tenantId } = run;
  const { rows } = await database.query<{
    operation_id: string;
    args_hash: string;
    status: OperationStatus;
    branch_id: string | null;
  }>(
    `SELECT operation_id, args_hash, status, branch_id FROM ${database.table('operations')}
     WHERE tenant_id = $1 AND (operation_id = $2 OR slot_id = $2)
     ORDER BY status = 'succeeded' DESC, operation_id = $2 DESC, sequence`,
    [tenantId, claim.operationId],
  );
  const known =
    rows.find((row) => row.args_hash === claim.argsHash) ??
    // Other arguments in one and the same branch are a conflict there, as they are without forks.
    rows.find((row) => row.branch_id === branch.id && !isFree(row.status)) ??
    rows.find((row) => row.operation_id === claim.operationId && isFree(row.status));
  if (known) return { ...asked, operationId: known.operation_id };
  if (!rows.some((row) => row.operation_id === claim.operationId)) return asked;
  return {
    ...asked,
    operationId: branchOperationId(claim.operationId, branch.id),
    slotId: claim.operationId,
  };
}

/**
 * Whether a person has allowed the branch to run the operation with these arguments. What a person gave as its result
 * instead is recorded, and the next look at the ledger finds it.
 * @throws GraphInterrupt when nobody has been asked yet.
 */
export async function isAllowed(run: RunContext, branch: Branch, claim: ClaimRequest): Promise<boolean> {
  const id = newEffectQuestionId(claim.operationId, branch.id, claim.argsHash);
  const answer = await answerTo(run, id);
  if (answer === undefined) {
    await noteAsked(run, claim);
    throw askBeforeNewEffect(id, claim);
  }
  if ('retry' in answer.resolution) return true;
  await recordReported(run, claim, answer.resolution.happened, answer.by);
  return false;
}

async function answerTo(
  { database, tenantId, threadId }: RunContext,
  interruptId: string,
): Promise<{ resolution: OperationResolution; by: string } | undefined> {
  const { rows } = await database.query<{ answer: unknown; by: string }>(
    `SELECT answer, answered_by AS by FROM ${database.table('interrupts')}
     WHERE tenant_id = $1 AND thread_id = $2 AND interrupt_id = $3 AND status = 'answered'`,
    [tenantId, threadId, interruptId],
  );
  const [row] = rows;
  return row && { resolution: operationResolution.parse(row.answer), by: row.by };
}

/** Shows it among the operations, as asked for and not begun. */
async function noteAsked(run: RunContext, claim: ClaimRequest): Promise<void> {
  const { database } = run;
  await database.query(
    `INSERT INTO ${database.table('operations')} (tenant_id, operation_id, lineage_root, thread_id, run_id, node, tool,
       tool_call_id, business_key, kind, status, args_hash, args, branch_id, slot_id)
     SELECT $1, $4, $5, $2, $6::uuid, $7, $8, $9, $10, $11, 'pending', $12, $13::json, $14, $15
     FROM ${database.table('threads')}
     WHERE tenant_id = $1 AND thread_id = $2 AND fence = $3::bigint AND deleted_at IS NULL
     ON CONFLICT (tenant_id, operation_id) DO NOTHING`,
    [
      run.tenantId,
      run.threadId,
      run.fence,
      claim.operationId,
      run.lineageRoot,
      run.runId,
      storable(claim.node),
      storable(claim.tool),
      claim.toolCallId === null ? null : storable(claim.toolCallId),
      claim.businessKey === null ? null : storable(claim.businessKey),
      claim.kind,
      claim.argsHash,
      JSON.stringify(claim.args),
      claim.branchId,
      claim.slotId,
    ],
  );
}

/** Only where nobody is at work on it, and it is not known to have happened. */
async function recordReported(
  { database, tenantId }: RunContext,
  claim: ClaimRequest,
  happened: JsonValue,
  by: string,
): Promise<void> {
  const result = storeReported(happened);
  await database.query(
    `UPDATE ${database.table('operations')}
     SET status = 'succeeded', result_type = $3, result = $4, error = NULL, finished_at = now(), args_hash = $5,
       args = $6::json, branch_id = $7, lease_token = NULL, lease_until = NULL, resolved_by = $8, resolved_at = now()
     WHERE tenant_id = $1 AND operation_id = $2
       AND (status IN ('pending', 'failed', 'unknown') OR (status = 'running' AND lease_until < now()))`,
    [
      tenantId,
      claim.operationId,
      result.type,
      result.bytes,
      claim.argsHash,
      JSON.stringify(claim.args),
      claim.branchId,
      by,
    ],
  );
}
