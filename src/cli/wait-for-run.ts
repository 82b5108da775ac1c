import type { RecordedRun } from '../threads/request-run.ts';
import type { RunResult } from '../contracts/runs.ts';
import { isPerdureError } from '../contracts/errors.ts';
import { isAlive } from '../dev/processes.ts';
import { EXIT } from './exit-status.ts';
import type { Progress } from './output.ts';
import { servedBy, type Runtime, type Serving } from './runtime.ts';
import type { Session } from './session.ts';
import { asPending, showRun } from './show-run.ts';

/** How often the worker of ours that serves the run is looked after, in ms. */
const LOOK_MS = 1_000;
/** A worker that ends by itself is replaced this often, then its graph is to blame. */
const MAX_REPLACED = 3;

/** Aborted by Ctrl-C. Asked for before the run is recorded, so that there is no moment in which it is not heeded. */
export function stopOnInterrupt(): AbortSignal {
  const stopped = new AbortController();
  process.once('SIGINT', () => stopped.abort());
  return stopped.signal;
}

/**
 * Waits for the run's end and shows it. Ctrl-C ends the waiting, not the run; a worker of ours that dies meanwhile
 * is replaced.
 * @returns the exit status.
 */
export async function waitAndShow(
  session: Session,
  runtime: Runtime,
  run: RecordedRun & Pick<RunResult, 'stopped'>,
  serving: Serving,
  progress: Progress,
  stopped: AbortSignal,
): Promise<number> {
  progress(`${run.graph}@${run.version} runs on thread ${run.thread_id}`);
  const watch = watchWorker(runtime, run, serving, progress);
  try {
    const result = await runtime.client.waitForRun(run.run_id, stopped);
    return showRun(session, run.stopped ? { ...result, stopped: run.stopped } : result);
  } catch (error) {
    const follow = session.commandLine('thread', run.thread_id);
    if (!stopped.aborted) throw stillRecorded(error, run, follow);
    session.output.note(`The run goes on. Follow it: ${follow}`);
    if (session.output.json)
      session.output.result(await runtime.client.readRun(run.run_id).catch(() => asPending(run)), () => '');
    return EXIT.stopped;
  } finally {
    watch.stop();
  }
}

/** Whatever went wrong while waiting, the run is not lost. */
function stillRecorded(error: unknown, run: RecordedRun, follow: string): unknown {
  if (!isPerdureError(error)) return error;
  error.message += ` Run ${run.run_id} is recorded and goes on by itself; follow it: ${follow}`;
  Object.assign(error.details, { thread_id: run.thread_id, run_id: run.run_id });
  return error;
}

function watchWorker(
  runtime: Runtime,
  run: RecordedRun,
  serving: Serving,
  progress: Progress,
): { stop(): void } {
  let at = serving;
  let replaced = 0;
  let timer: NodeJS.Timeout | undefined;
  let stopped = false;
  const look = async () => {
    if (!('worker' in at) || (await isAlive(at.worker)) || replaced >= MAX_REPLACED) return;
    replaced += 1;
    progress(`the worker (pid ${at.worker.pid}) has ended; its log is ${at.worker.log}`);
    at = await servedBy(runtime, run);
  };
  const next = () => {
    if (stopped) return;
    timer = setTimeout(() => {
      // The run waits in Postgres whatever becomes of this: the next round tries again.
      look()
        .catch((error: unknown) => progress(error instanceof Error ? error.message : String(error)))
        .finally(next);
    }, LOOK_MS);
  };
  next();
  return {
    stop() {
      stopped = true;
      clearTimeout(timer);
    },
  };
}
