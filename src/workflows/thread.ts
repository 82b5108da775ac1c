import {
  ActivityCancellationType,
  CancellationScope,
  allHandlersFinished,
  condition,
  continueAsNew,
  defineSignal,
  isCancellation,
  log,
  proxyActivities,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow';
import { untilDue } from './due.ts';
import {
  CANCEL_SIGNAL,
  WAKE_SIGNAL,
  type AdvanceResult,
  type FailedTasks,
  type ThreadActivities,
  type ThreadWorkflowArgs,
} from '../contracts/thread-workflow.ts';
import { Grace } from './grace.ts';
import { settleTasks } from './tasks.ts';

const wakeSignal = defineSignal<[string]>(WAKE_SIGNAL);
const cancelSignal = defineSignal<[string]>(CANCEL_SIGNAL);

/** Events after which the history is cut, though the server has not yet asked for it: a waking thread replays it. */
const MAX_HISTORY_EVENTS = 1_000;

const { advanceThread } = proxyActivities<ThreadActivities>({
  // A node may compute, or wait for a slow tool, as long as it gives signs of life; a segment hands over by itself.
  startToCloseTimeout: '7 days',
  // A worker gives a sign of life every half second, from a thread of its own.
  heartbeatTimeout: '2 seconds',
  cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
  // What fails here is the machinery (a worker, Postgres); errors of the graph are results. So: until it works.
  retry: { initialInterval: '50 milliseconds', backoffCoefficient: 2, maximumInterval: '5 seconds' },
});

/**
 * The only writer of one thread. Postgres holds what was asked, in order; a signal only says that something is
 * there. So a lost, repeated or late signal does no harm, and this history holds ids alone.
 */
export async function thread(args: ThreadWorkflowArgs): Promise<void> {
  /** Runs that were announced and are not known to have ended. */
  const announced = new Set(args.carried?.announced);
  let segment: CancellationScope | undefined;
  let signals = 0;
  setHandler(wakeSignal, (runId) => {
    announced.add(runId);
    signals += 1;
  });
  setHandler(cancelSignal, (runId) => {
    announced.add(runId);
    signals += 1;
    segment?.cancel();
  });

  let more = args.carried?.more ?? false;
  let waiting = args.carried?.waiting ?? false;
  let failed = args.carried?.failed;
  let nextDue = args.carried?.next_due ?? null;
  const grace = new Grace();
  for (;;) {
    if (!more && announced.size === 0) {
      if (nextDue !== null) {
        const fired = await untilDue(args, nextDue, () => announced.size > 0);
        more = fired?.more ?? false;
        nextDue = fired ? fired.next_due : nextDue;
        if (fired && !more) continue;
      } else if (waiting) await condition(() => announced.size > 0);
      else if (!(await grace.await(() => announced.size > 0))) {
        await condition(allHandlersFinished);
        if (announced.size === 0) return;
      }
    }
    const known = [...announced];
    const before = signals;
    segment = new CancellationScope();
    const result = await advance(segment, args, failed);
    segment = undefined;
    failed = result?.failed;
    if (result === undefined) continue;
    const unfinished = result.outcome === 'handed_over' || result.outcome === 'retry';
    if (!unfinished && result.run_id !== null) announced.delete(result.run_id);
    // Whatever was announced before the segment began was visible to it.
    if (!result.more && !unfinished) for (const id of known) announced.delete(id);
    more = result.more === true || unfinished;
    waiting = result.waiting === true;
    nextDue = result.next_due ?? null;
    // Any signal since the segment began ends the pause: it may be a cancel. The segment says how much is left of it.
    if (result.outcome === 'retry')
      await condition(() => signals > before, Math.max(result.retry_in_ms ?? 0, 1));
    if (isHistoryLong()) {
      await condition(allHandlersFinished);
      await continueAsNew<typeof thread>({
        ...args,
        carried: {
          announced: [...announced],
          more,
          waiting,
          ...(failed ? { failed } : {}),
          ...(nextDue === null ? {} : { next_due: nextDue }),
        },
      });
    }
  }
}

function isHistoryLong(): boolean {
  const info = workflowInfo();
  return info.continueAsNewSuggested || info.historyLength > MAX_HISTORY_EVENTS;
}

/** Undefined when the segment was cancelled before it could say how it ended: the next one finds that out. */
async function advance(
  scope: CancellationScope,
  args: ThreadWorkflowArgs,
  failed: FailedTasks | undefined,
): Promise<AdvanceResult | undefined> {
  const { tenant_id, thread_id, graph, version } = args;
  try {
    return await scope.run(async () => {
      const of = { tenant_id, thread_id, graph, version };
      const result = failed ? await advanceThread({ failed }) : await advanceThread();
      return settleTasks(result, of, isHistoryLong);
    });
  } catch (error) {
    const stopped = scope.consideredCancelled || isCancellation(error);
    if (!stopped || CancellationScope.current().consideredCancelled) throw error;
    log.debug('the segment was cancelled', { thread_id });
    return undefined;
  }
}
