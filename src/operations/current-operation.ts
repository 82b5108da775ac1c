import { AsyncLocalStorage } from 'node:async_hooks';
import type { RequestKeys } from './request-keys.ts';
import { processWide } from './process-wide.ts';

/** What the code of an operation gets: its id, when to stop, and a `fetch` that carries the id. */
export type OperationCall = {
  /** The same on every retry and resume: the far side's idempotency key. */
  readonly operationId: string;
  /** Aborted when the run is cancelled, when a newer attempt holds the thread, or when the lease was lost. */
  readonly signal: AbortSignal;
  /** `fetch` with `Idempotency-Key` on requests that change something, and with the signal. */
  readonly fetch: typeof fetch;
};

/** The operation as the parts of this folder see it. On `globalThis`, so its shape is part of the API. */
export type RunningOperation = OperationCall & {
  /** The model's call that it is made of, where there is one. */
  readonly toolCallId?: string | undefined;
  readonly requests: RequestKeys;
  /** Counts the operations begun inside this one, by tool. */
  readonly ordinals: Map<string, number>;
  /** Set once the operation's function has come back: what it left running is no longer part of it. */
  settled: boolean;
};

const storage = (): AsyncLocalStorage<RunningOperation> =>
  processWide('operation', () => new AsyncLocalStorage<RunningOperation>());

/** The operation that the caller is part of, for code deep inside a tool; undefined outside of one. */
export function currentOperation(): OperationCall | undefined {
  return runningOperation();
}

export function runningOperation(): RunningOperation | undefined {
  const operation = storage().getStore();
  return operation === undefined || operation.settled ? undefined : operation;
}

export function withOperation<T>(operation: RunningOperation, work: () => T): T {
  return storage().run(operation, work);
}
