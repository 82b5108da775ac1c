import { Worker } from 'node:worker_threads';
import type { Context } from '@temporalio/activity';
import type { TemporalServer } from '../config/config.ts';
import type { SegmentHeartbeat } from '../contracts/thread-workflow.ts';
import type { Logger } from '../telemetry/log.ts';

/** From the main thread: an activity shows signs of life, or has ended. */
export type HeartbeatOrder =
  { about: 'beat'; token: string; details: SegmentHeartbeat } | { about: 'end'; token: string };

/** The SDK is shown one in so many while the thread sends them: enough for its own watch, which waits for seconds more. */
const SHOWN_TO_SDK = 4;

/** To the main thread: an activity is to be cancelled. */
export type HeartbeatNews = { cancelled: string };

/** What the heartbeat thread is started with. */
export type HeartbeatThreadData = { temporal: TemporalServer };

/** One activity's signs of life. */
export type Beating = {
  /** Aborted when Temporal wants the activity to stop; heard with its next heartbeat. */
  readonly cancelled: AbortSignal;
  beat(details: SegmentHeartbeat): void;
  /** To be called when the activity ends, however it ends. */
  end(): void;
};

/** Where activities send their signs of life. */
export type Heartbeats = {
  begin(context: Context): Beating;
  close(): Promise<void>;
};

/** Heartbeats by the event loop that runs the nodes: one that blocks it for longer than the timeout is taken for dead. */
export function mainThreadHeartbeats(): Heartbeats {
  return {
    begin: (context) => ({
      cancelled: context.cancellationSignal,
      beat: (details) => context.heartbeat(details),
      end: () => {},
    }),
    close: async () => {},
  };
}

/**
 * Heartbeats by a thread of their own, so that they go on while a node blocks the event loop. The main thread sends
 * its own as well: Temporal's SDK watches those, with a limit of its own that is longer.
 */
export function heartbeatThread(temporal: TemporalServer, logger: Logger): Heartbeats {
  const thread = startThread({ temporal });
  const running = new Map<string, AbortController>();
  let alive = true;
  thread.on('message', (news: HeartbeatNews) => running.get(news.cancelled)?.abort());
  // Without the thread the main thread's heartbeats remain.
  thread.on('error', (error) => {
    alive = false;
    logger.warn({ error: String(error) }, 'the heartbeat thread failed');
  });
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
  const tell = (order: HeartbeatOrder) => thread.postMessage(order);
  return {
    begin(context) {
      const { base64TaskToken: token } = context.info;
      const cancelled = new AbortController();
      const onCancel = () => cancelled.abort();
      context.cancellationSignal.addEventListener('abort', onCancel);
      if (context.cancellationSignal.aborted) onCancel();
      running.set(token, cancelled);
      let beats = 0;
      return {
        cancelled: cancelled.signal,
        beat(details) {
          if (beats % SHOWN_TO_SDK === SHOWN_TO_SDK - 1 || !alive) context.heartbeat(details);
          beats += 1;
          tell({ about: 'beat', token, details });
        },
        end() {
          context.cancellationSignal.removeEventListener('abort', onCancel);
          running.delete(token);
          tell({ about: 'end', token });
        },
      };
    },
    async close() {
      await thread.terminate();
    },
  };
}

/** Run from source, the thread has to learn TypeScript first. */
function startThread(workerData: HeartbeatThreadData): Worker {
  const fromSource = import.meta.url.endsWith('.ts');
  const script = new URL(`./heartbeat-thread.${fromSource ? 'ts' : 'js'}`, import.meta.url);
  const thread = fromSource
    ? new Worker(
        `import(${JSON.stringify(import.meta.resolve('tsx/esm/api'))}).then(({ register }) => { register(); return import(${JSON.stringify(script.href)}); });`,
        { eval: true, workerData },
      )
    : new Worker(script, { workerData });
  thread.unref();
  return thread;
}
