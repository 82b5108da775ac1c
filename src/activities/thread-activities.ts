import { ApplicationFailure, Context } from '@temporalio/activity';
import { isPerdureError } from '../contracts/errors.ts';
import type { ThreadActivities } from '../contracts/thread-workflow.ts';
import type { SegmentRunner } from '../graph/segment.ts';
import type { HandOver } from './hand-over.ts';

export type ThreadActivityOptions = {
  runSegment: SegmentRunner;
  handOver: HandOver;
};

/** What of an error's text may go into Temporal's history, in characters. */
const MAX_MESSAGE = 500;

export function createThreadActivities({ runSegment, handOver }: ThreadActivityOptions): ThreadActivities {
  return {
    async advanceThread(request) {
      const context = Context.current();
      try {
        const result = await runSegment(request, {
          cancelled: context.cancellationSignal,
          draining: handOver.draining,
          heartbeat: (details) => context.heartbeat(details),
        });
        if (result.outcome === 'handed_over') await handOver.keep();
        return result;
      } catch (error) {
        if (isPerdureError(error, 'THREAD_DELETED'))
          return { outcome: 'idle', run_id: null, more: false, waiting: false };
        throw machineryFailure(error);
      }
    },
  };
}

/** Everything that comes here is the machinery's and is tried again; state and stacks stay out of the history. */
function machineryFailure(error: unknown): ApplicationFailure {
  const message = error instanceof Error ? error.message : String(error);
  return ApplicationFailure.create({
    type: isPerdureError(error) ? error.code : error instanceof Error ? error.name : 'Error',
    message: message.slice(0, MAX_MESSAGE),
    nonRetryable: false,
  });
}
