// A worker process: serves the graphs of one langgraph.json until it is told to stop.
// Usage: node main.js --project FILE. Settings come from the environment; see docs/configuration.md.
// Prints one JSON line on stdout when it is ready.
import { parseArgs } from 'node:util';
import { Runtime, makeTelemetryFilterString } from '@temporalio/worker';
import { readConfig } from '../src/config/config.ts';
import { ConfigError, isPerdureError } from '../src/contracts/errors.ts';
import { readProject } from '../src/graph/langgraph-json.ts';
import { loadGraph } from '../src/graph/load-graphs.ts';
import { migrate } from '../src/postgres/migrate.ts';
import { openDatabase } from '../src/postgres/database.ts';
import { armFault } from '../src/telemetry/fault-points.ts';
import { createLogger } from '../src/telemetry/log.ts';
import { startThreadWorker } from './thread-worker.ts';

const { values } = parseArgs({ options: { project: { type: 'string' } } });

async function main(): Promise<void> {
  if (values.project === undefined)
    throw new ConfigError('--project: name the langgraph.json whose graphs are to be served.');
  const project = readProject(values.project);
  for (const [name, value] of Object.entries(project.env)) process.env[name] ??= value;
  const config = readConfig(process.env, process.cwd());
  if (config.databaseUrl === undefined)
    throw new ConfigError('DATABASE_URL: a worker needs it.', { variable: 'DATABASE_URL' });
  const { address } = config.temporal;
  if (address === undefined)
    throw new ConfigError('TEMPORAL_ADDRESS: a worker needs it.', { variable: 'TEMPORAL_ADDRESS' });
  const logger = createLogger(config.logLevel);
  Runtime.install({
    shutdownSignals: [],
    telemetryOptions: { logging: { forward: {}, filter: makeTelemetryFilterString({ core: 'ERROR' }) } },
    logger: {
      log: (level, message) => logger.info({ level }, message),
      trace: (message) => logger.trace(message),
      debug: (message) => logger.debug(message),
      info: (message) => logger.debug(message),
      warn: (message, meta) => logger.warn({ meta: String(meta?.['error'] ?? '') }, message),
      error: (message, meta) => logger.error({ meta: String(meta?.['error'] ?? '') }, message),
    },
  });
  armFault(config.fault);
  const graphs = [];
  for (const source of project.graphs) graphs.push(await loadGraph(source));
  const database = openDatabase({ connectionString: config.databaseUrl, schema: config.schema });
  try {
    await migrate(database);
  } finally {
    await database.close();
  }
  const worker = await startThreadWorker({
    databaseUrl: config.databaseUrl,
    schema: config.schema,
    tenant: config.tenant,
    temporal: { ...config.temporal, address },
    graphs,
    poolSize: config.poolSize,
    statementTimeoutMs: config.statementTimeoutMs,
    ...config.worker,
    logger,
  });
  for (const signal of ['SIGTERM', 'SIGINT'] as const)
    process.once(signal, () => {
      logger.info({ signal }, 'stopping');
      worker
        .stop()
        .catch((error: unknown) => logger.error({ error: String(error) }, 'could not stop cleanly'));
    });
  const serves = graphs.map(({ name, version }) => ({ graph: name, version }));
  process.stdout.write(
    `${JSON.stringify({ ready: true, worker_id: worker.id, pid: process.pid, serves })}\n`,
  );
  await worker.ended;
}

try {
  await main();
  process.exit(0);
} catch (error) {
  const code = isPerdureError(error) ? error.code : 'WORKER_FAILED';
  process.stderr.write(
    `${JSON.stringify({ error: { code, message: error instanceof Error ? error.message : String(error) } })}\n`,
  );
  process.exit(1);
}
