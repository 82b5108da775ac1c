import { InvalidInputError } from '../contracts/errors.ts';
import { operationResolution, type OperationResolution } from '../contracts/operations.ts';

/** @throws InvalidInputError that says what is expected. */
export function parseResolution(value: unknown): OperationResolution {
  const parsed = operationResolution.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new InvalidInputError(
    'Say what became of the operation: {"happened": <its result>} or {"retry": true}.',
  );
}
