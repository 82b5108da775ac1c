import { randomUUID } from 'node:crypto';
import { Client, Connection } from '@temporalio/client';
import { DefaultLogger, makeTelemetryFilterString, Runtime } from '@temporalio/worker';
import { inject } from 'vitest';
import { PerdureClient } from '../../src/client/client.ts';
import { defineGraph, isGraphDefinition } from '../../src/graph/define-graph.ts';
import { withShape } from '../../src/graph/load-graphs.ts';
import { GraphRegistry } from '../../src/graph/registry.ts';
import { openDatabase, quoteIdentifier, type Database } from '../../src/postgres/database.ts';
import { migrate } from '../../src/postgres/migrate.ts';
import { createLogger } from '../../src/telemetry/log.ts';
import { workflowBundle } from './workflow-bundle.ts';
import { startThreadWorker, type ThreadWorker } from '../../workers/thread-worker.ts';

/** A migrated schema of its own, a client, and workers inside this process on demand. */
export type Installation = {
  schema: string;
  database: Database;
  client: PerdureClient;
  temporal: Client;
  /** Registers graphs, as a worker would, without serving them. */
  register(graphs: TestGraphs): Promise<void>;
  startWorker(
    graphs: TestGraphs,
    options?: {
      segmentBudgetMs?: number;
      maxCachedWorkflows?: number;
      heartbeatThread?: boolean;
      taskQueues?: string[];
    },
  ): Promise<ThreadWorker>;
  /** Stops every worker, closes connections and drops the schema. */
  close(): Promise<void>;
};

/** Compiled graphs by name, each gets version 1; or what defineGraph() made, under any key. */
export type TestGraphs = Record<string, unknown>;

/** Errors end a run at once, unless it says otherwise: a timer takes Temporal a second. */
const QUICK = { maximumAttempts: 1 };

let quiet = false;

/** Temporal's own log is for failures of tests only. */
export function quietTemporal(): void {
  if (quiet) return;
  quiet = true;
  Runtime.install({
    logger: new DefaultLogger('ERROR'),
    shutdownSignals: [],
    telemetryOptions: { logging: { forward: {}, filter: makeTelemetryFilterString({ core: 'ERROR' }) } },
  });
}

/** Where the servers are. Default: those of the test run. */
export type TestServers = { databaseUrl: string; temporalAddress: string };

export async function openInstallation(
  prefix = 'test',
  { databaseUrl, temporalAddress: address }: TestServers = {
    databaseUrl: inject('databaseUrl'),
    temporalAddress: inject('temporalAddress'),
  },
): Promise<Installation> {
  quietTemporal();
  const schema = `${prefix}-${randomUUID().slice(0, 8)}`;
  const database = openDatabase({ connectionString: databaseUrl, schema, max: 8 });
  await migrate(database);
  const connection = await Connection.connect({ address });
  const temporal = new Client({ connection });
  const client = new PerdureClient({ database, temporal, tenant: 'default' });
  const workers: ThreadWorker[] = [];
  const load = (graphs: TestGraphs) =>
    Object.entries(graphs).map(([name, graph]) =>
      withShape(isGraphDefinition(graph) ? graph : defineGraph({ name, version: '1', graph, retry: QUICK })),
    );
  return {
    schema,
    database,
    client,
    temporal,
    async register(graphs) {
      const registry = new GraphRegistry();
      for (const graph of load(graphs)) registry.add(graph);
      await registry.register(database, 'default');
    },
    async startWorker(graphs, options = {}) {
      const worker = await startThreadWorker({
        databaseUrl,
        schema,
        tenant: 'default',
        temporal: { address },
        graphs: load(graphs),
        poolSize: 8,
        maxConcurrentSegments: 50,
        maxCachedWorkflows: options.maxCachedWorkflows ?? 50,
        segmentBudgetMs: options.segmentBudgetMs ?? 600_000,
        logger: createLogger('error'),
        workflowBundle: await workflowBundle(),
        taskQueues: options.taskQueues,
        // Many tests start a worker; few have a node that blocks.
        heartbeatThread: options.heartbeatThread ?? false,
      });
      workers.push(worker);
      return worker;
    },
    async close() {
      await Promise.allSettled(workers.map((worker) => worker.stop()));
      await client.close();
      await database.query(`DROP SCHEMA IF EXISTS ${quoteIdentifier(schema)} CASCADE`);
      await Promise.allSettled([connection.close(), database.close()]);
    },
  };
}
