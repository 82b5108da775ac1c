import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import type { Client } from '@temporalio/client';
import { bundleWorkflowCode, DefaultLogger, NativeConnection, Runtime, Worker } from '@temporalio/worker';

/** Temporal's SDK and server without anything of ours: a workflow of activities that do nothing. */
export type BareActivities = { once(count: number): Promise<void>; close(): Promise<void> };

export async function startBareActivities(client: Client, address: string): Promise<BareActivities> {
  const logger = new DefaultLogger('ERROR');
  Runtime.install({ logger });
  const workflowsPath = fileURLToPath(new URL('./workflow.ts', import.meta.url));
  const workflowBundle = await bundleWorkflowCode({ workflowsPath, logger });
  const connection = await NativeConnection.connect({ address });
  const taskQueue = `bare-${randomUUID()}`;
  const worker = await Worker.create({
    connection,
    workflowBundle,
    taskQueue,
    activities: { nothing: async () => undefined },
  });
  const running = worker.run();
  return {
    async once(count) {
      await client.workflow.execute('bareActivities', { taskQueue, workflowId: randomUUID(), args: [count] });
    },
    async close() {
      worker.shutdown();
      await running;
      await connection.close();
    },
  };
}
