import { PerdureError } from '../contracts/errors.ts';
import type { EffectKind } from '../contracts/operations.ts';
import type { OperationCall } from './current-operation.ts';
import { currentSlot, currentTaskSignal } from './current-slot.ts';
import { execute, type Lookup, type Simulate } from './ledger.ts';
import { callOutside, type Outside } from './outside.ts';
import { currentRunContext } from './run-context.ts';

export type OperationOptions = {
  /** What may be done when it is not known whether the effect happened. */
  kind: EffectKind;
  /** A business key, such as `refund:order-1042`: the operation is one and the same wherever it is asked for. */
  key?: string | undefined;
  /** What the effect depends on; with other arguments the same operation is refused. Default: nothing. */
  args?: unknown;
  /** For the kind `reconcilable`: asks the far side whether it happened. */
  lookup?: Lookup | undefined;
  /** For forks in which nothing may happen outside: gives, for `args`, what `fn` would have returned. */
  simulate?: Simulate | undefined;
  /** How long a silent worker is believed to be at work, in ms. Default 5,000. */
  lease?: number | undefined;
  /** What to do outside of a perdure run. Default `throw`. */
  outside?: Outside | undefined;
};

/**
 * One side effect inside a node. Its result is recorded, and comes from the record whenever the node runs again.
 *
 * ```ts
 * const charge = await operation('charge', { kind: 'idempotent', key: `charge:${order}`, args: { order, amount } },
 *   async (call) => (await call.fetch(url, { method: 'POST', body })).json());
 * ```
 * Without a key the calls of one name in one node are counted in the order in which they are made, which has to be
 * the same on every retry. Inside another operation's function it is an operation of its own.
 * @throws what `fn` throws; StaleFenceError, OperationConflictError and OperationUnknownError as `execute` does; and
 * LangGraph's GraphInterrupt when a person has to say what became of it.
 */
export async function operation<T>(
  name: string,
  options: OperationOptions,
  fn: (call: OperationCall) => Promise<T> | T,
): Promise<T> {
  checkKind(name, options);
  const run = currentRunContext();
  if (run === undefined) return callOutside(name, options.outside, fn);
  const slot = currentSlot(run, { tool: name, businessKey: options.key });
  const result = await execute<T>(run, {
    ...slot,
    kind: options.kind,
    tool: name,
    args: options.args ?? {},
    businessKey: options.key,
    lookup: options.lookup,
    simulate: options.simulate,
    run: fn,
    signal: currentTaskSignal(),
    leaseMs: options.lease,
  });
  // What was recorded under this id is what `fn` returned, or what a person or the far side said it had.
  return result.value as T;
}

/** @throws PerdureError OPERATION_INVALID when a reconcilable operation has no lookup. */
export function checkKind(name: string, options: { kind: EffectKind; lookup?: Lookup | undefined }): void {
  if (options.kind === 'reconcilable' && options.lookup === undefined)
    throw new PerdureError(
      'OPERATION_INVALID',
      `'${name}' is 'reconcilable' and gives no lookup(operationId); without one the kind is 'exclusive'.`,
      { tool: name },
    );
}
