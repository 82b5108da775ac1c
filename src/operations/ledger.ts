import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import {
  isPerdureError,
  OperationConflictError,
  OperationUnknownError,
  StaleFenceError,
} from '../contracts/errors.ts';
import type { EffectKind } from '../contracts/operations.ts';
import { askPerson } from './ask-person.ts';
import { inBranch, isAllowed } from './branch-effects.ts';
import { resultLost, runClaimed, type AttemptOptions } from './attempt.ts';
import { argumentsHash, argumentsJson } from './canonical-json.ts';
import {
  claimOperation,
  isFree,
  markLapsed,
  recordLookup,
  type ClaimRequest,
  type ExistingOperation,
} from './claim.ts';
import type { OperationCall } from './current-operation.ts';
import { LEASE } from './lease.ts';
import { loadResult, storeResult } from './result-codec.ts';
import { NotExecutedError } from './proof.ts';
import type { RunContext } from './run-context.ts';

/** What the far side says of an operation. Undefined: it can't tell. */
export type LookupResult = { happened: true; result: unknown } | { happened: false } | undefined;

/** Asks the far side what became of an operation. An error means that it could not be asked now. */
export type Lookup = (
  operationId: string,
  about: { args: unknown; signal: AbortSignal },
) => Promise<LookupResult> | LookupResult;

/** Gives, for an operation's arguments, what it would have returned. Nothing may happen outside. */
export type Simulate = (args: never) => unknown;

export type OperationRequest<T> = {
  operationId: string;
  kind: EffectKind;
  tool: string;
  /** Data; the same operation with other arguments is refused. */
  args: unknown;
  /** The way to the node that asks, for people. */
  node: string;
  toolCallId?: string | undefined;
  businessKey?: string | undefined;
  /** For the kind `reconcilable`. */
  lookup?: Lookup | undefined;
  run(call: OperationCall): Promise<T> | T;
  /** What to take for the result in a branch where nothing may happen. */
  simulate?: Simulate | undefined;
  /** Stops the operation besides the run's own signal. */
  signal?: AbortSignal | undefined;
  /** Default {@link LEASE}. */
  leaseMs?: number | undefined;
  mayOutliveAbort?: boolean | undefined;
  provesNothing?: ((error: unknown) => boolean) | undefined;
};

/** A result that was made now, or one that the ledger had. */
export type OperationResult<T> = { recorded: false; value: T } | { recorded: true; value: unknown };

/**
 * Runs the operation unless it has been run, so that its effect happens once at most however often this is called:
 * by a retry, a resume, another process or, with a business key, another thread.
 * @throws StaleFenceError when a newer attempt holds the thread; nothing was recorded or run.
 * @throws OperationConflictError when the operation happened, or may have, with other arguments.
 * @throws OperationUnknownError when the far side could not be asked.
 * @throws GraphInterrupt when a person has to say what became of the operation, or whether a fork may run it.
 * @throws NotExecutedError in a fork where nothing may happen, when the operation can't be simulated.
 */
export async function execute<T>(run: RunContext, request: OperationRequest<T>): Promise<OperationResult<T>> {
  try {
    return await settle(run, request);
  } catch (error) {
    // These end the attempt, though an agent would hand them to its model as the tool's error.
    if (isPerdureError(error, 'FENCE_STALE') || isPerdureError(error, 'STORAGE_UNAVAILABLE')) run.fail(error);
    throw error;
  }
}

async function settle<T>(run: RunContext, request: OperationRequest<T>): Promise<OperationResult<T>> {
  const args = argumentsJson(request.args);
  const asked: ClaimRequest = {
    operationId: request.operationId,
    kind: request.kind,
    tool: request.tool,
    node: request.node,
    toolCallId: request.toolCallId ?? null,
    businessKey: request.businessKey ?? null,
    args,
    argsHash: argumentsHash(args),
    leaseToken: randomUUID(),
    leaseMs: request.leaseMs ?? LEASE,
    branchId: null,
    slotId: null,
  };
  const { branch } = run;
  const claim = branch === undefined ? asked : await inBranch(run, branch, asked);
  if (branch?.effects === 'dry' && claim.kind !== 'pure') return withoutEffect(run, claim, request);
  const asking = branch?.effects === 'recorded' && claim.kind !== 'pure' ? branch : undefined;
  const attempt: AttemptOptions<T> = {
    run: (call) => request.run(call),
    signal: request.signal,
    mayOutliveAbort: request.mayOutliveAbort ?? false,
    provesNothing: request.provesNothing,
  };
  let mayRun = asking === undefined;
  for (let turn = 0; ; turn += 1) {
    run.signal.throwIfAborted();
    request.signal?.throwIfAborted();
    const claimed = await claimOperation(run, claim, mayRun);
    if (claimed.outcome === 'stale') throw stale(run, claim, claimed.currentFence);
    if (claimed.outcome === 'claimed')
      return { recorded: false, value: await runClaimed(run, claim, claimed.attempts, attempt) };
    const { existing } = claimed;
    // It is free to take, but a person has to allow it first; or somebody else was faster.
    if (existing === undefined || isFree(existing.status)) {
      if (asking && !mayRun) mayRun = await isAllowed(run, asking, claim);
      continue;
    }
    if (existing.argsHash !== claim.argsHash && !(claim.kind === 'pure' && existing.live))
      throw new OperationConflictError(claim.operationId, { tool: claim.tool, status: existing.status });
    if (existing.status === 'succeeded')
      return { recorded: true, value: await recordedResult(run, claim, existing) };
    if (existing.live) await waitForHolder(run, request.signal, existing.leaseMs, turn);
    else if (asking && !mayRun && claim.kind === 'idempotent') mayRun = await isAllowed(run, asking, claim);
    else await settleUnknown(run, claim, request, existing);
  }
}

function stale(run: RunContext, claim: ClaimRequest, currentFence: string | null): StaleFenceError {
  return new StaleFenceError(run.threadId, {
    operation_id: claim.operationId,
    fence: run.fence,
    current_fence: currentFence,
  });
}

/** In a branch where nothing may happen: what is on record, else what the tool says it would have returned. */
async function withoutEffect<T>(
  run: RunContext,
  claim: ClaimRequest,
  request: OperationRequest<T>,
): Promise<OperationResult<T>> {
  const looked = await claimOperation(run, claim, false);
  if (looked.outcome === 'stale') throw stale(run, claim, looked.currentFence);
  const existing = looked.outcome === 'held' ? looked.existing : undefined;
  if (existing && !isFree(existing.status)) {
    if (existing.argsHash !== claim.argsHash)
      throw new OperationConflictError(claim.operationId, { tool: claim.tool, status: existing.status });
    if (existing.status === 'succeeded')
      return { recorded: true, value: await recordedResult(run, claim, existing) };
  }
  if (request.simulate) return { recorded: true, value: await request.simulate(request.args as never) };
  throw new NotExecutedError(
    `'${claim.tool}' is not on record with these arguments, and this branch was forked with effects 'dry', so it did not run. Give it a 'simulate', or fork with 'recorded' or 'live'.`,
    { operation_id: claim.operationId, tool: claim.tool, effects: 'dry' },
  );
}

async function recordedResult(
  run: RunContext,
  claim: ClaimRequest,
  existing: ExistingOperation,
): Promise<unknown> {
  if (existing.result === undefined) throw resultLost(claim.operationId, existing.error?.message);
  return loadResult(run.serde, existing.result);
}

/** The longest pause before the holder is looked at again, in ms. */
const LONGEST_WAIT = 500;

/** Waits for whoever runs the operation: a little longer each time, and no longer than the lease is good for. */
async function waitForHolder(
  run: RunContext,
  signal: AbortSignal | undefined,
  leaseMs: number,
  turn: number,
): Promise<void> {
  const pause = Math.min(20 * 2 ** Math.min(turn, 5), LONGEST_WAIT, Math.max(leaseMs, 1) + 1);
  const either = signal === undefined ? run.signal : AbortSignal.any([run.signal, signal]);
  await delay(pause, undefined, { signal: either }).catch((error: unknown) => {
    either.throwIfAborted();
    throw error;
  });
}

/** Finds out about an operation that may have happened. Returns when the next claim will see it. */
async function settleUnknown<T>(
  run: RunContext,
  claim: ClaimRequest,
  request: OperationRequest<T>,
  existing: ExistingOperation,
): Promise<void> {
  const { database, tenantId } = run;
  const { attempts } = existing;
  const { operationId } = claim;
  // These run again: the next claim takes it over, unless somebody else is faster.
  if (claim.kind === 'pure' || claim.kind === 'idempotent') return;
  if (!(await markLapsed(database, tenantId, operationId, attempts))) return;
  if (claim.kind === 'reconcilable' && request.lookup !== undefined) {
    const found = await askFarSide(run, request, request.lookup);
    if (found?.happened === true) {
      await recordLookup(
        database,
        tenantId,
        operationId,
        attempts,
        await storeResult(run.serde, found.result),
      );
      return;
    }
    if (found?.happened === false) {
      await recordLookup(database, tenantId, operationId, attempts, undefined);
      return;
    }
  }
  throw askPerson({ ...claim, attempts });
}

async function askFarSide<T>(
  run: RunContext,
  request: OperationRequest<T>,
  lookup: Lookup,
): Promise<LookupResult> {
  try {
    return await lookup(request.operationId, { args: request.args, signal: request.signal ?? run.signal });
  } catch (error) {
    throw Object.assign(new OperationUnknownError(request.operationId, { tool: request.tool }), {
      cause: error,
    });
  }
}
