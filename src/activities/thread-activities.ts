import { Context } from '@temporalio/activity';
import { isPerdureError } from '../contracts/errors.ts';
import { ofGraphTaskQueue, ofThreadWorkflowId } from '../contracts/ids.ts';
import type { AdvanceResult, DueRequest, DueResult, ThreadActivities } from '../contracts/thread-workflow.ts';
import type { TaskRunner } from '../graph/run-task.ts';
import type { SegmentControl, SegmentRunner } from '../graph/segment.ts';
import { TaskFailure } from '../graph/task-failure.ts';
import type { HandOver } from './hand-over.ts';
import type { Heartbeats } from './heartbeats.ts';
import { machineryFailure } from './machinery-failure.ts';
import { nodeFailure } from './node-failure.ts';

export type ThreadActivityOptions = {
  runSegment: SegmentRunner;
  runTask: TaskRunner;
  fireDue: (request: DueRequest) => Promise<DueResult>;
  handOver: HandOver;
  heartbeats: Heartbeats;
  /** Called before any work on a thread. */
  beforeWork: () => Promise<void>;
};

export function createThreadActivities({
  runSegment,
  runTask,
  fireDue,
  handOver,
  heartbeats,
  beforeWork,
}: ThreadActivityOptions): ThreadActivities {
  /** Runs `work` under signs of life, and keeps back what this worker would be given again while it stops. */
  const beating = async <R>(
    work: (control: SegmentControl) => Promise<R>,
    handsOver: (result: R) => boolean,
  ): Promise<R | Idle> => {
    const beat = heartbeats.begin(Context.current());
    try {
      await beforeWork();
      const result = await work({
        cancelled: beat.cancelled,
        draining: handOver.draining,
        heartbeat: (details) => beat.beat(details),
      });
      if (handsOver(result)) await handOver.keep();
      return result;
    } catch (error) {
      if (isPerdureError(error, 'THREAD_DELETED')) return { outcome: 'idle', run_id: null };
      throw error instanceof TaskFailure ? nodeFailure(error) : machineryFailure(error);
    } finally {
      beat.end();
    }
  };
  return {
    advanceThread(call) {
      const { workflowExecution, taskQueue } = Context.current().info;
      const thread = ofThreadWorkflowId(workflowExecution?.workflowId ?? '');
      const request = { ...thread, ...ofGraphTaskQueue(taskQueue), ...call };
      return beating((control) => runSegment(request, control), isHandedOver);
    },
    runTask: (request) =>
      beating(
        (control) => runTask(request, control),
        (result) => ('task' in result ? result.task === 'handed_back' : isHandedOver(result)),
      ),
    async fireDue(request) {
      try {
        return await fireDue(request);
      } catch (error) {
        throw machineryFailure(error);
      }
    },
  };
}

type Idle = AdvanceResult & { outcome: 'idle' };

/** Whether there is more to do for the thread at once. */
function isHandedOver({ outcome }: AdvanceResult): boolean {
  return outcome === 'handed_over' || outcome === 'tasks';
}
