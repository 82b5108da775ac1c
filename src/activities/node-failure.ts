import { ApplicationFailure } from '@temporalio/activity';
import { NODE_FAILURE } from '../contracts/thread-workflow.ts';
import type { TaskFailure } from '../graph/task-failure.ts';
import { MAX_MESSAGE } from './machinery-failure.ts';

/** Stays in the history: Temporal shows that the node failed, and why; Postgres has the rest. */
export function nodeFailure(error: TaskFailure): ApplicationFailure {
  return ApplicationFailure.create({
    type: NODE_FAILURE,
    message: error.message.slice(0, MAX_MESSAGE),
    nonRetryable: error.retryAfterMs === undefined,
    ...(error.retryAfterMs === undefined ? {} : { nextRetryDelay: error.retryAfterMs }),
    ...(error.result === undefined ? {} : { details: [error.result] }),
  });
}
