import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { hostname } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Client, Connection } from '@temporalio/client';
import { NativeConnection, Worker, bundleWorkflowCode, type WorkflowBundleOption } from '@temporalio/worker';
import { HandOver } from '../src/activities/hand-over.ts';
import { heartbeatThread, mainThreadHeartbeats, type Heartbeats } from '../src/activities/heartbeats.ts';
import { createMigrateActivities } from '../src/activities/migrate-activities.ts';
import { createScheduleActivities } from '../src/activities/schedule-activities.ts';
import { createThreadActivities } from '../src/activities/thread-activities.ts';
import { PerdureSaver } from '../src/checkpoint/saver.ts';
import { tracesToLangSmith, type TemporalServer } from '../src/config/config.ts';
import { temporalConnection } from '../src/config/temporal-connection.ts';
import { registerSearchAttributes } from '../src/client/search-attributes.ts';
import { temporalError, wakeThread } from '../src/client/wake.ts';
import { controlTaskQueue } from '../src/contracts/ids.ts';
import type { AdvanceRequest } from '../src/contracts/thread-workflow.ts';
import type { LoadedGraph } from '../src/graph/load-graphs.ts';
import { GraphRegistry } from '../src/graph/registry.ts';
import { createTaskRunner } from '../src/graph/run-task.ts';
import { createSegmentRunner } from '../src/graph/segment.ts';
import { installUntracedRunTree } from '../src/graph/untraced-run-tree.ts';
import { installOperationFetch } from '../src/operations/operation-fetch.ts';
import { openDatabase } from '../src/postgres/database.ts';
import type { Logger } from '../src/telemetry/log.ts';
import { fireDue } from '../src/threads/deadlines.ts';
import { RestoreWatch } from '../src/threads/restore-watch.ts';
import { fireSchedule } from '../src/threads/schedules.ts';
import { forgetWorker, reportWorker } from '../src/threads/workers.ts';
import { quiet } from './quiet.ts';
import { servedQueues } from './served-queues.ts';
import { startSweeper } from './sweeper.ts';

/**
 * How long workflow code may compute at a time. An option that the SDK has but does not show: its default, 5 s of the
 * wall clock, may pass on a machine that has too much to do, and on Node 20 the process then aborts.
 */
const PATIENCE: object = { isolateExecutionTimeout: '10 minutes' };

export type ThreadWorkerOptions = {
  databaseUrl: string;
  schema: string;
  tenant: string;
  temporal: TemporalServer;
  graphs: LoadedGraph[];
  poolSize: number;
  /** Default: without end. */
  statementTimeoutMs?: number;
  maxConcurrentSegments: number;
  maxCachedWorkflows: number;
  segmentBudgetMs: number;
  logger: Logger;
  /** The bundled workflow code. Default: what the build made, or, run from source, a bundle made now. */
  workflowBundle?: WorkflowBundleOption;
  /** The task queues to serve: `graphs`, and those that policies of nodes name. Default: all. */
  taskQueues?: readonly string[] | undefined;
  /** Whether heartbeats come from a thread of their own, so that a node may block the event loop. Default true. */
  heartbeatThread?: boolean;
};

export type ThreadWorker = {
  readonly id: string;
  /** Resolves after stop(); rejects when the worker fails by itself. */
  readonly ended: Promise<void>;
  /**
   * Takes no more work, hands running segments over at their next superstep, and waits for those that can't within
   * 30 s before it cancels them.
   */
  stop(): Promise<void>;
};

const SHUTDOWN_GRACE = '30 seconds';
/** How long Temporal may take to learn that a worker polls no more, in ms. */
const WITHDRAWN_MS = 50;
/** How often a worker says that it lives, in ms. */
const SIGN_OF_LIFE_MS = 5_000;
/** The event loop's own heartbeats go out no more often than this. */
const HEARTBEAT_THROTTLE = '500 milliseconds';
/** The same where a thread sends them as well. */
const HEARTBEAT_THROTTLE_BESIDE_THREAD = '1500 milliseconds';
/** How long Temporal keeps a woken workflow for the worker that had it in memory, before any other may take it. */
const STICKY_TIMEOUT = '1 second';

/**
 * Starts a worker for some graphs, each version with a task queue of its own. The schema must be migrated.
 * @throws GraphChangedError | StorageUnavailableError | TemporalUnavailableError | ConfigError
 */
export async function startThreadWorker(options: ThreadWorkerOptions): Promise<ThreadWorker> {
  const id = randomUUID();
  const { logger, schema, tenant } = options;
  const database = openDatabase({
    connectionString: options.databaseUrl,
    schema,
    max: options.poolSize,
    ...(options.statementTimeoutMs ? { statementTimeoutMs: options.statementTimeoutMs } : {}),
    onIdleError: (error) => logger.warn({ error: error.message }, 'an idle connection to Postgres was lost'),
  });
  const graphs = new GraphRegistry();
  for (const graph of options.graphs) graphs.add(graph);
  const connections = await connectTemporal(options).catch(async (error: unknown) => {
    await database.close();
    throw error;
  });
  let heartbeats: Heartbeats | undefined;
  const close = async () => {
    await heartbeats?.close();
    await Promise.allSettled([connections.native.close(), connections.client.close(), database.close()]);
  };
  try {
    await graphs.register(database, tenant);
    const handOver = new HandOver();
    const ownThread = options.heartbeatThread ?? true;
    heartbeats = ownThread ? heartbeatThread(options.temporal, logger) : mainThreadHeartbeats();
    const throttle = ownThread ? HEARTBEAT_THROTTLE_BESIDE_THREAD : HEARTBEAT_THROTTLE;
    const saver = new PerdureSaver(database);
    const temporal = new Client({
      connection: connections.client,
      namespace: options.temporal.namespace ?? 'default',
    });
    const watch = new RestoreWatch(database, (threads) => {
      logger.error(
        { threads },
        'Postgres was put back to an earlier state: effects are looked for before new ones',
      );
    });
    const parts = {
      database,
      graphs,
      saver,
      workerId: id,
      budgetMs: options.segmentBudgetMs,
      onUnknownThread: ({ thread_id, graph, version }: AdvanceRequest) =>
        logger.error(
          { thread_id, graph, version },
          'a workflow is there for a thread that Postgres does not know',
        ),
    };
    const activities = {
      ...createThreadActivities({
        runSegment: createSegmentRunner(parts),
        runTask: createTaskRunner(parts),
        fireDue: async ({ tenant_id, thread_id }) => {
          const { more, next_due } = await fireDue(database, tenant_id, thread_id);
          return { more, next_due };
        },
        handOver,
        heartbeats,
        beforeWork: () => watch.beforeWork(),
      }),
      ...createMigrateActivities({ database, saver, graphs }),
      ...createScheduleActivities({
        fire: async ({ tenant_id, name }) => {
          const run = await fireSchedule(database, tenant_id, name);
          if (run) await wakeThread(temporal, { schema, tenant_id, ...run }, run.run_id);
          return run?.run_id ?? null;
        },
      }),
    };
    const workflowBundle = options.workflowBundle ?? (await workflowCode());
    const common = {
      connection: connections.native,
      namespace: options.temporal.namespace ?? 'default',
      // Both are written into most events of a thread's history: short ones halve it.
      identity: `${hostname()}/${process.pid}`,
      buildId: 'perdure',
      activities,
      maxConcurrentActivityTaskExecutions: options.maxConcurrentSegments,
      maxHeartbeatThrottleInterval: throttle,
      defaultHeartbeatThrottleInterval: throttle,
      shutdownGraceTime: SHUTDOWN_GRACE,
    };
    const queues = servedQueues(schema, graphs.all(), options.taskQueues);
    const workers = await Promise.all([
      Worker.create({
        ...common,
        workflowBundle,
        ...PATIENCE,
        taskQueue: controlTaskQueue(schema),
        // Its workflows are short and few: nothing is kept, and one poll of each kind is enough.
        maxCachedWorkflows: 0,
        maxConcurrentWorkflowTaskPolls: 1,
        maxConcurrentActivityTaskPolls: 1,
      }),
      ...queues.graphs.map(({ task_queue: taskQueue }) =>
        Worker.create({
          ...common,
          workflowBundle,
          ...PATIENCE,
          taskQueue,
          maxCachedWorkflows: options.maxCachedWorkflows,
          stickyQueueScheduleToStartTimeout: STICKY_TIMEOUT,
        }),
      ),
      // Activities only: the thread's workflow is on the graph's own queue.
      ...queues.nodes.map((taskQueue) => Worker.create({ ...common, taskQueue })),
    ]);
    const restoreFetch = installOperationFetch();
    const restoreRunTree = installUntracedRunTree(() => tracesToLangSmith(process.env));
    const report = () =>
      reportWorker(database, tenant, {
        worker_id: id,
        host: hostname(),
        pid: process.pid,
        serves: queues.graphs,
      });
    await report();
    const alive = setInterval(() => {
      report().catch((error: unknown) => logger.warn({ error: String(error) }, 'could not report as alive'));
    }, SIGN_OF_LIFE_MS);
    await registerSearchAttributes(temporal).catch((error: unknown) =>
      logger.info({ error: String(error) }, 'threads have no search attributes in Temporal'),
    );
    const sweeper = startSweeper({ database, temporal, logger, watch });
    const shutDown = () => {
      for (const worker of workers) if (worker.getState() === 'RUNNING') worker.shutdown();
    };
    const running = workers.map((worker) => worker.run());
    const runToTheEnd = async () => {
      try {
        await Promise.all(running);
      } finally {
        // One that failed takes the others with it.
        shutDown();
        handOver.release();
        await Promise.allSettled(running);
        clearInterval(alive);
        restoreFetch();
        restoreRunTree();
        await sweeper.stop();
        await forgetWorker(database, tenant, id).catch(() => undefined);
        await close();
      }
    };
    const ended = runToTheEnd();
    let stopping = false;
    return {
      id,
      ended,
      async stop() {
        if (!stopping) {
          stopping = true;
          handOver.begin();
          await quiet(workers, () => handOver.kept);
          shutDown();
          await delay(WITHDRAWN_MS);
          handOver.release();
        }
        await ended;
      },
    };
  } catch (error) {
    await close();
    throw error;
  }
}

async function connectTemporal(
  options: ThreadWorkerOptions,
): Promise<{ native: NativeConnection; client: Connection }> {
  const settings = temporalConnection(options.temporal);
  try {
    const client = await Connection.connect(settings);
    const native = await NativeConnection.connect(settings);
    return { native, client };
  } catch (error) {
    throw temporalError(error);
  }
}

/** The bundle that the build made, or, run from source, one made of the workflow code itself. */
async function workflowCode(): Promise<WorkflowBundleOption> {
  const built = fileURLToPath(new URL('../workflow-bundle/bundle.js', import.meta.url));
  if (existsSync(built)) return { codePath: built };
  return bundleWorkflowCode({
    workflowsPath: fileURLToPath(new URL('../src/workflows/index.ts', import.meta.url)),
    logger: SILENT,
  });
}

const SILENT = { log() {}, trace() {}, debug() {}, info() {}, warn() {}, error() {} };
