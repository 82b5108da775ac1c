import { Context } from '@temporalio/activity';
import { isPerdureError } from '../contracts/errors.ts';
import type { ThreadActivities } from '../contracts/thread-workflow.ts';
import type { SegmentRunner } from '../graph/segment.ts';
import type { HandOver } from './hand-over.ts';
import type { Heartbeats } from './heartbeats.ts';
import { machineryFailure } from './machinery-failure.ts';

export type ThreadActivityOptions = {
  runSegment: SegmentRunner;
  handOver: HandOver;
  heartbeats: Heartbeats;
};

export function createThreadActivities({
  runSegment,
  handOver,
  heartbeats,
}: ThreadActivityOptions): ThreadActivities {
  return {
    async advanceThread(request) {
      const beating = heartbeats.begin(Context.current());
      try {
        const result = await runSegment(request, {
          cancelled: beating.cancelled,
          draining: handOver.draining,
          heartbeat: (details) => beating.beat(details),
        });
        if (result.outcome === 'handed_over') await handOver.keep();
        return result;
      } catch (error) {
        if (isPerdureError(error, 'THREAD_DELETED'))
          return { outcome: 'idle', run_id: null, more: false, waiting: false };
        throw machineryFailure(error);
      } finally {
        beating.end();
      }
    },
  };
}
