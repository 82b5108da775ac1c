// A thread that tells Temporal that the activities of its process live, while the main thread may be at work.
import { parentPort, workerData } from 'node:worker_threads';
import { ActivityCancelledError, Client, Connection } from '@temporalio/client';
import { temporalConnection } from '../config/temporal-connection.ts';
import type { SegmentHeartbeat } from '../contracts/thread-workflow.ts';
import type { HeartbeatNews, HeartbeatOrder, HeartbeatThreadData } from './heartbeats.ts';

/** How often, in ms. */
const HEARTBEAT_MS = 500;
/** How long the main thread may be silent before it is no longer vouched for, in ms. The SDK waits about as long. */
const VOUCH_MS = 6_000;

type Activity = { token: Uint8Array; details: SegmentHeartbeat; heardAt: number; sending: boolean };

const { temporal } = workerData as HeartbeatThreadData;
const activities = new Map<string, Activity>();

parentPort?.on('message', (order: HeartbeatOrder) => {
  if (order.about === 'end') {
    activities.delete(order.token);
    return;
  }
  const known = activities.get(order.token);
  const heard = { details: order.details, heardAt: performance.now() };
  if (known) Object.assign(known, heard);
  else activities.set(order.token, { token: Buffer.from(order.token, 'base64'), sending: false, ...heard });
});

const client = new Client({
  connection: Connection.lazy(temporalConnection(temporal)),
  namespace: temporal.namespace ?? 'default',
});

setInterval(() => {
  for (const [key, activity] of activities)
    if (!activity.sending && performance.now() - activity.heardAt < VOUCH_MS) void send(key, activity);
}, HEARTBEAT_MS);

async function send(key: string, activity: Activity): Promise<void> {
  activity.sending = true;
  try {
    await client.activity.heartbeat(activity.token, activity.details);
  } catch (error) {
    // Any other error (Temporal away, an activity that has just ended) is met by the next heartbeat, or by the main thread's.
    if (error instanceof ActivityCancelledError)
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
      parentPort?.postMessage({ cancelled: key } satisfies HeartbeatNews);
  } finally {
    activity.sending = false;
  }
}
