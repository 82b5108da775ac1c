import { randomUUID } from 'node:crypto';
import { PerdureError } from '../contracts/errors.ts';
import type { OperationCall } from './current-operation.ts';

/** Outside of a perdure run there is no ledger: `throw` says so, `run` calls the function all the same. */
export type Outside = 'throw' | 'run';

/** @throws PerdureError OPERATION_OUTSIDE_RUN unless `outside` is `run`. */
export function checkOutside(name: string, outside: Outside | undefined): void {
  if (outside === 'run') return;
  throw new PerdureError(
    'OPERATION_OUTSIDE_RUN',
    `'${name}' was called outside of a perdure run, so nothing would stop it from happening twice. ` +
      `Run the graph by perdure, or set outside: 'run' to call it plainly.`,
    { tool: name },
  );
}

export function callOutside<T>(
  name: string,
  outside: Outside | undefined,
  fn: (call: OperationCall) => Promise<T> | T,
): Promise<T> | T {
  checkOutside(name, outside);
  return fn(outsideCall());
}

/** A call with an id of its own, which no retry will see again. */
export function outsideCall(): OperationCall {
  return {
    operationId: `outside:${randomUUID()}`,
    signal: new AbortController().signal,
    fetch: globalThis.fetch,
  };
}
