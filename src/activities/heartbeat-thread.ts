// A thread that tells Temporal that the activities of its process live, while the main thread may be at work.
import { parentPort, workerData } from 'node:worker_threads';
import { ActivityCancelledError, Client, Connection } from '@temporalio/client';
import { temporalConnection } from '../config/temporal-connection.ts';
import type { SegmentHeartbeat } from '../contracts/thread-workflow.ts';
import type { HeartbeatNews, HeartbeatOrder, HeartbeatThreadData } from './heartbeats.ts';

/** How often for each activity, in ms. One that ends before the first costs the server none. */
const HEARTBEAT_MS = 500;
/** With many activities, each more seldom: so many ms for each of them, up to `SELDOM_MS`, half of the timeout. */
const SPREAD_MS = 20;
const SELDOM_MS = 1_000;
const TICK_MS = 100;
/** How long the main thread may be silent before it is no longer vouched for, in ms. The SDK waits about as long. */
const VOUCH_MS = 6_000;

type Activity = {
  token: Uint8Array;
  details: SegmentHeartbeat;
  heardAt: number;
  /** When the last was sent; before the first, when the activity began. */
  sentAt: number;
  sending: boolean;
};

const { temporal } = workerData as HeartbeatThreadData;
const activities = new Map<string, Activity>();

parentPort?.on('message', (order: HeartbeatOrder) => {
  if (order.about === 'end') {
    activities.delete(order.token);
    return;
  }
  const known = activities.get(order.token);
  const heardAt = performance.now();
  const heard = { details: order.details, heardAt };
  if (known) Object.assign(known, heard);
  else
    activities.set(order.token, {
      token: Buffer.from(order.token, 'base64'),
      sentAt: heardAt,
      sending: false,
      ...heard,
    });
});

const client = new Client({
  connection: Connection.lazy(temporalConnection(temporal)),
  namespace: temporal.namespace ?? 'default',
});

setInterval(() => {
  const now = performance.now();
  const every = Math.min(SELDOM_MS, Math.max(HEARTBEAT_MS, activities.size * SPREAD_MS));
  for (const [key, activity] of activities)
    if (!activity.sending && now - activity.sentAt >= every && now - activity.heardAt < VOUCH_MS)
      void send(key, activity);
}, TICK_MS);

async function send(key: string, activity: Activity): Promise<void> {
  activity.sending = true;
  activity.sentAt = performance.now();
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
