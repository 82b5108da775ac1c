import { z } from 'zod';
import { errorRecord, jsonValue } from './json.ts';

/**
 * What may be done about an effect that may or may not have happened:
 * `pure` runs again; `idempotent` runs again with the same key; `reconcilable` asks the far side;
 * `exclusive` asks a person.
 */
export const effectKind = z.enum(['pure', 'idempotent', 'reconcilable', 'exclusive']);
export type EffectKind = z.infer<typeof effectKind>;

/**
 * `pending` (asked for, not begun, or let go before its effect), `running` (under a lease), then one of
 * `succeeded`, `failed` (it is known that nothing happened), `unknown`.
 */
export const operationStatus = z.enum(['pending', 'running', 'succeeded', 'failed', 'unknown']);
export type OperationStatus = z.infer<typeof operationStatus>;

export const operationView = z.object({
  operation_id: z.string(),
  thread_id: z.string(),
  run_id: z.string().nullable(),
  node: z.string(),
  tool: z.string(),
  tool_call_id: z.string().nullable(),
  kind: effectKind,
  status: operationStatus,
  args: jsonValue,
  result: jsonValue.nullable(),
  error: errorRecord.nullable(),
  attempts: z.int(),
  created_at: z.string(),
  started_at: z.string().nullable(),
  finished_at: z.string().nullable(),
  resolved_by: z.string().nullable(),
});
export type OperationView = z.infer<typeof operationView>;

/** What a person says of an operation whose fate is unknown. */
export const operationResolution = z.union([
  z.strictObject({ happened: jsonValue }),
  z.strictObject({ retry: z.literal(true) }),
]);
export type OperationResolution = z.infer<typeof operationResolution>;

/** How the ids of questions about operations begin, to be told from those of a graph's own questions. */
export const OPERATION_QUESTION_PREFIX = 'op-';

/** How the ids of those begin that ask, in a fork, whether an operation may run that is not on record. */
export const NEW_EFFECT_QUESTION_PREFIX = `${OPERATION_QUESTION_PREFIX}new-`;
