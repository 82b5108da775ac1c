import { ApplicationFailure } from '@temporalio/activity';
import { isPerdureError } from '../contracts/errors.ts';

/** What of an error's text may go into Temporal's history, in characters. */
export const MAX_MESSAGE = 500;

/** An error of the machinery, which is tried again; state and stacks stay out of the history. */
export function machineryFailure(error: unknown): ApplicationFailure {
  const message = error instanceof Error ? error.message : String(error);
  return ApplicationFailure.create({
    type: isPerdureError(error) ? error.code : error instanceof Error ? error.name : 'Error',
    message: message.slice(0, MAX_MESSAGE),
    nonRetryable: false,
  });
}
