import {
  ActivityCancellationType,
  ActivityFailure,
  ApplicationFailure,
  isCancellation,
  proxyActivities,
  TimeoutFailure,
} from '@temporalio/workflow';
import {
  NODE_FAILURE,
  type AdvanceResult,
  type DueTask,
  type DueTasks,
  type FailedTask,
  type RunTaskResult,
  type TaskOptions,
  type ThreadActivities,
} from '../contracts/thread-workflow.ts';

type Thread = { tenant_id: string; thread_id: string; graph: string; version: string };

/** Temporal shows no more of a summary, in bytes. */
const MAX_SUMMARY = 200;

/**
 * Runs the tasks that a segment handed out, each as an activity of its own. Gives how the thread stands after them:
 * where one task was alone, the segment that ran it has gone on; else the next segment has to.
 */
export async function settleTasks(
  handedOut: AdvanceResult,
  thread: Thread,
  isHistoryLong: () => boolean,
): Promise<AdvanceResult> {
  let result = handedOut;
  while (result.outcome === 'tasks' && result.due !== undefined) {
    // What is not run now is handed out again by the next segment.
    if (result !== handedOut && isHistoryLong()) return goingOn(result, []);
    const [only] = result.due.tasks;
    result = result.due.alone && only ? await runAlone(result, only, thread) : await runPage(result, thread);
  }
  return result;
}

function goingOn({ run_id }: AdvanceResult, failed: FailedTask[]): AdvanceResult {
  return {
    outcome: 'handed_over',
    run_id,
    more: true,
    ...(run_id === null || failed.length === 0 ? {} : { failed: { run_id, tasks: failed } }),
  };
}

async function runAlone(result: AdvanceResult, task: DueTask, thread: Thread): Promise<AdvanceResult> {
  try {
    const ended = await startTask(result, task, thread);
    return 'task' in ended ? goingOn(result, []) : ended;
  } catch (error) {
    const failure = error instanceof ActivityFailure ? error.cause : undefined;
    if (failure instanceof ApplicationFailure && failure.type === NODE_FAILURE) {
      const [ended] = failure.details ?? [];
      if (isAdvanceResult(ended)) return ended;
    }
    return goingOn(result, [failedTask(task, error)]);
  }
}

function isAdvanceResult(value: unknown): value is AdvanceResult {
  return typeof value === 'object' && value !== null && 'outcome' in value;
}

/** As many at once as the options allow. Once one has failed, no further ones are begun; those under way end. */
async function runPage(result: AdvanceResult, thread: Thread): Promise<AdvanceResult> {
  const { due } = result;
  if (due === undefined) return result;
  const failed: FailedTask[] = [];
  const errors: unknown[] = [];
  const runNext = async (queue: DueTask[], slots: Slots): Promise<void> => {
    for (let task = queue.shift(); task !== undefined; task = queue.shift()) {
      await slots.take();
      try {
        if (failed.length === 0 && errors.length === 0) await startTask(result, task, thread);
      } catch (error) {
        if (isCancellation(error)) errors.push(error);
        else failed.push(failedTask(task, error));
      } finally {
        slots.giveBack();
      }
    }
  };
  const slots = new Slots(due.concurrency);
  const queues = byNode(due);
  await Promise.all(
    queues.flatMap(({ tasks, concurrency }) =>
      Array.from({ length: Math.min(concurrency, tasks.length) }, () => runNext(tasks, slots)),
    ),
  );
  if (errors.length > 0) throw errors[0];
  return goingOn(result, failed);
}

function byNode({ tasks, options }: DueTasks): { tasks: DueTask[]; concurrency: number }[] {
  return Object.entries(options).map(([node, { concurrency }]) => ({
    tasks: tasks.filter((task) => task.node === node),
    concurrency,
  }));
}

/** A number of slots that tasks of all nodes share, given in the order in which they are asked for. */
class Slots {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(size: number) {
    this.#free = size;
  }

  async take(): Promise<void> {
    if (this.#free > 0) this.#free -= 1;
    else
      await new Promise<void>((resolve) => {
        this.#waiting.push(resolve);
      });
  }

  giveBack(): void {
    const next = this.#waiting.shift();
    if (next) next();
    else this.#free += 1;
  }
}

function startTask({ run_id, due }: AdvanceResult, task: DueTask, thread: Thread): Promise<RunTaskResult> {
  const { task_id, node, tool } = task;
  const summary = [node, ...(tool === undefined || tool === node ? [] : [tool]), thread.thread_id].join(
    ' · ',
  );
  const { runTask } = proxyActivities<ThreadActivities>({
    ...activityOptions(due?.options[node]),
    summary: cut(summary),
  });
  return runTask({
    ...thread,
    run_id: run_id ?? '',
    checkpoint_id: due?.checkpoint_id ?? '',
    fence: due?.fence ?? 0,
    task_id,
    node,
    alone: due?.alone ?? false,
  });
}

function activityOptions(options: TaskOptions | undefined) {
  return {
    ...(options?.task_queue === undefined ? {} : { taskQueue: options.task_queue }),
    // The worker itself ends a task whose time is up; this is for one that can't.
    startToCloseTimeout: options?.start_to_close ?? '7 days',
    ...(options?.schedule_to_start === undefined
      ? {}
      : { scheduleToStartTimeout: options.schedule_to_start }),
    heartbeatTimeout: options?.heartbeat ?? '2 seconds',
    cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
    // Errors of the node are counted by the attempts themselves; what else fails is the machinery.
    retry: { initialInterval: '50 milliseconds', backoffCoefficient: 2, maximumInterval: '5 seconds' },
  } as const;
}

function failedTask(task: DueTask, error: unknown): FailedTask {
  const failure = error instanceof ActivityFailure ? error.cause : error;
  if (failure instanceof TimeoutFailure)
    return {
      task_id: task.task_id,
      name: 'TaskTimeoutError',
      message: `The task of node '${task.node}' was given up: ${failure.timeoutType}. Does a worker serve its task queue?`,
    };
  const message = failure instanceof Error ? failure.message : String(failure);
  return {
    task_id: task.task_id,
    name: failure instanceof ApplicationFailure ? (failure.type ?? 'Error') : 'Error',
    message,
  };
}

/** At most {@link MAX_SUMMARY} bytes of UTF-8. */
function cut(text: string): string {
  let bytes = 0;
  let kept = '';
  for (const character of text) {
    const point = character.codePointAt(0) ?? 0;
    bytes += point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    if (bytes > MAX_SUMMARY) break;
    kept += character;
  }
  return kept;
}
