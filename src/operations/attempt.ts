import { setMaxListeners } from 'node:events';
import { isPerdureError, PerdureError } from '../contracts/errors.ts';
import { toErrorRecord, type ErrorRecord } from '../contracts/json.ts';
import { faultPoint } from '../telemetry/fault-points.ts';
import { askPerson } from './ask-person.ts';
import type { ClaimRequest } from './claim.ts';
import { isControlFlow } from './control-flow.ts';
import { withOperation, type OperationCall, type RunningOperation } from './current-operation.ts';
import { Lease } from './lease.ts';
import { fetchOf } from './operation-fetch.ts';
import { provesNothingHappened } from './proof.ts';
import { RequestKeys } from './request-keys.ts';
import { storeResult, type StoredResult } from './result-codec.ts';
import type { RunContext } from './run-context.ts';

export type AttemptOptions<T> = {
  run(call: OperationCall): Promise<T> | T;
  /** Stops the operation besides the run's own signal: a node's timeout. */
  signal: AbortSignal | undefined;
  /** Whether `run` may come back on an abort while its code still works: then the lease is left to lapse. */
  mayOutliveAbort: boolean;
  /** What else than {@link provesNothingHappened} proves that nothing happened. */
  provesNothing: ((error: unknown) => boolean) | undefined;
};

/** Runs an operation that this attempt has claimed, and records what became of it. */
export async function runClaimed<T>(
  run: RunContext,
  claim: ClaimRequest,
  attempts: number,
  options: AttemptOptions<T>,
): Promise<T> {
  faultPoint('operation:claimed');
  const lease = new Lease(run, claim.operationId, claim.leaseToken, claim.leaseMs);
  const stop = linkedController([run.signal, options.signal]);
  const operation = runningOperation(claim, stop.signal);
  lease.keep((reason) => {
    stop.abort(reason);
    if (isPerdureError(reason, 'FENCE_STALE')) run.fail(reason);
  });
  try {
    if (stop.signal.aborted) {
      await lease.release();
      throw stop.signal.reason;
    }
    let value: T;
    try {
      value = await withOperation(operation, () => options.run(operation));
    } catch (error) {
      operation.settled = true;
      await settleError(lease, claim, attempts, operation, error, options);
      throw error;
    }
    operation.settled = true;
    faultPoint('operation:effect-done');
    await recordSuccess(run, lease, claim.operationId, value);
    faultPoint('operation:recorded');
    return value;
  } finally {
    lease.stop();
    stop.dispose();
  }
}

function runningOperation({ operationId, toolCallId }: ClaimRequest, signal: AbortSignal): RunningOperation {
  const operation: RunningOperation = {
    operationId,
    toolCallId: toolCallId ?? undefined,
    signal,
    fetch: fetchOf(() => operation),
    requests: new RequestKeys(operationId),
    ordinals: new Map(),
    settled: false,
  };
  return operation;
}

async function recordSuccess(
  run: RunContext,
  lease: Lease,
  operationId: string,
  value: unknown,
): Promise<void> {
  let result: StoredResult | undefined;
  let refused: unknown;
  try {
    result = await storeResult(run.serde, value);
  } catch (error) {
    refused = error;
  }
  if (result !== undefined) {
    await lease.record({ status: 'succeeded', result, error: undefined });
    return;
  }
  // The effect happened: whatever is wrong with its result, it must not run again.
  const lost = resultLost(operationId, refused);
  await lease.record({ status: 'succeeded', result: undefined, error: withoutStack(lost) });
  throw lost;
}

/** The operation took effect, but what it returned could not be kept. */
export function resultLost(operationId: string, cause: unknown): PerdureError {
  return new PerdureError(
    'OPERATION_RESULT_LOST',
    `Operation '${operationId}' took effect, but its result can't be stored (${cause instanceof Error ? cause.message : String(cause)}). ` +
      `It will not run again. Make it return data, and say what it returned: perdure operations resolve ${operationId} --happened JSON`,
    { operation_id: operationId },
    { cause },
  );
}

/** @throws GraphInterrupt instead of the error when a person has to say what became of the operation. */
async function settleError<T>(
  lease: Lease,
  claim: ClaimRequest,
  attempts: number,
  operation: RunningOperation,
  error: unknown,
  options: AttemptOptions<T>,
): Promise<void> {
  if (isControlFlow(error)) {
    await lease.release();
    return;
  }
  const record = withoutStack(error);
  const proven = provesNothingHappened(error) && !operation.requests.mayHaveHadEffect();
  if (claim.kind === 'pure' || proven || options.provesNothing?.(error) === true) {
    await lease.record({ status: 'failed', error: record });
    return;
  }
  if (operation.signal.aborted && options.mayOutliveAbort) return;
  await lease.record({ status: 'unknown', error: record });
  if (claim.kind === 'exclusive' && !operation.signal.aborted) throw askPerson({ ...claim, attempts });
}

/** Stacks hold paths and, in some libraries, data; the ledger keeps what says what went wrong. */
function withoutStack(error: unknown): ErrorRecord {
  const { name, message, code } = toErrorRecord(error);
  return { name, message, ...(code === undefined ? {} : { code }) };
}

/** Aborted by any of `signals` or by hand. Not `AbortSignal.any`, which long-lived signals keep for ever on Node 20. */
function linkedController(signals: readonly (AbortSignal | undefined)[]): {
  signal: AbortSignal;
  abort(reason: unknown): void;
  dispose(): void;
} {
  const controller = new AbortController();
  const removals = signals.map((signal) => {
    if (signal === undefined) return () => undefined;
    const listener = (): void => controller.abort(signal.reason);
    if (signal.aborted) listener();
    // A run's signal has one listener for every operation at work; Node warns of the eleventh.
    setMaxListeners(0, signal);
    signal.addEventListener('abort', listener, { once: true });
    return () => signal.removeEventListener('abort', listener);
  });
  return {
    signal: controller.signal,
    abort: (reason) => controller.abort(reason),
    dispose: () => removals.forEach((remove) => remove()),
  };
}
