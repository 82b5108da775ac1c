import { isPerdureError } from '../contracts/errors.ts';

/** Errors of the machinery: the run is not at fault and goes on with the next attempt. */
const MACHINERY = ['STORAGE_UNAVAILABLE', 'FENCE_STALE', 'CHECKPOINT_PARENT_STALE'];

/** LangGraph wraps several failures of one superstep; the machinery's is the one that counts. */
export function findMachineryError(error: unknown, depth = 0): Error | undefined {
  if (!(error instanceof Error) || depth > 5) return undefined;
  if (MACHINERY.some((code) => isPerdureError(error, code))) return error;
  if (error instanceof AggregateError)
    for (const inner of error.errors) {
      const found = findMachineryError(inner, depth + 1);
      if (found) return found;
    }
  return findMachineryError(error.cause, depth + 1);
}
