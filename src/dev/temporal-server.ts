import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { isForTemporal, without } from './child-environment.ts';
import { reasonOf, ServerStartError } from './errors.ts';
import { launchDetached, type Launched } from './launch.ts';
import { choosePort, LOOPBACK } from './ports.ts';
import type { StartContext } from './postgres-server.ts';
import { isAlive, type ProcessRecord } from './processes.ts';
import { tailOf, textOf } from './server-log.ts';
import { logsOf, portsOf } from './servers-file.ts';
import { stopTemporal } from './stop-servers.ts';
import type { TemporalCli } from './temporal-cli.ts';

const READY_LIMIT_MS = 90_000;
const ANSWER_LIMIT_MS = 20_000;
const ATTEMPTS = 5;

/**
 * DESIGN section 9, measured: 20 polls a second per shard is the server's default and the cause of 50 ms hops; one
 * partition gives twice the throughput with few pollers.
 */
const DYNAMIC_CONFIG = {
  'history.transferProcessorMaxPollRPS': '2000',
  'history.timerProcessorMaxPollRPS': '2000',
  'history.visibilityProcessorMaxPollRPS': '2000',
  'matching.numTaskqueueReadPartitions': '1',
  'matching.numTaskqueueWritePartitions': '1',
  'system.enableActivityEagerExecution': 'true',
  // Timers, a heartbeat's too, fire up to this much late; the default of 1 s is for clocks of several machines.
  'history.timerProcessorMaxTimeShift': '"100ms"',
};

/** Faster than the defaults, and still safe against power loss (`synchronous=2` is FULL). */
const SQLITE_PRAGMAS = { journal_mode: 'wal', synchronous: '2' };

/** A Temporal that answers. */
export interface RunningTemporal {
  address: string;
  pid: number;
  port: number;
  uiPort: number;
  started: 'now' | 'already';
  version: string;
}

/**
 * Starts the home's Temporal, or finds it running, and returns once it serves the namespace. The caller holds the
 * home's lock. `findCli` is asked only when a server has to be started.
 * @throws ServerStartError with the last lines of the log.
 */
export async function startTemporal(
  context: StartContext,
  namespace: string,
  findCli: () => Promise<TemporalCli>,
): Promise<RunningTemporal> {
  const { file, onProgress } = context;
  const known = file.servers.temporal;
  if (known.process !== undefined && (await isAlive(known.process))) {
    const running = await already(
      known.process,
      known.port,
      known.uiPort,
      namespace,
      known.version ?? 'unknown',
    );
    if (running !== undefined) return running;
  }
  for (const pid of await stopTemporal(file)) {
    onProgress(`stopped a Temporal (pid ${pid}) that an interrupted start had left behind`);
  }
  return await launchAndWait(context, namespace, await findCli());
}

async function launchAndWait(
  { home, file, onProgress }: StartContext,
  namespace: string,
  cli: TemporalCli,
): Promise<RunningTemporal> {
  const tried: number[] = [];
  for (let attempt = 1; ; attempt += 1) {
    const { postgres, temporal } = file.servers;
    const taken = [...tried, ...portsOf(postgres)];
    const port = await choosePort(home, temporal.port, taken);
    const uiPort = await choosePort(home, temporal.uiPort, [...taken, port]);
    onProgress(`starting Temporal ${cli.version}`);
    const { record, log } = await launchDetached({
      name: 'Temporal',
      command: cli.path,
      args: argumentsFor(port, uiPort, namespace),
      logPath: join(logsOf(home), 'temporal.log'),
      env: without(process.env, isForTemporal),
      cwd: join(home, 'temporal'),
    });
    file.updateTemporal({ port, uiPort, version: cli.version, process: record });
    try {
      await untilReady({ record, log }, port, namespace, READY_LIMIT_MS);
      onProgress(
        `Temporal is ready on ${LOOPBACK}:${port} (pid ${record.pid}), its UI on http://${LOOPBACK}:${uiPort}`,
      );
      return {
        address: `${LOOPBACK}:${port}`,
        pid: record.pid,
        port,
        uiPort,
        started: 'now',
        version: cli.version,
      };
    } catch (error) {
      await stopTemporal(file);
      if (attempt >= ATTEMPTS || !/address already in use|can't set .* port/i.test(textOf(log))) throw error;
      tried.push(port, uiPort);
    }
  }
}

function argumentsFor(port: number, uiPort: number, namespace: string): string[] {
  const args = ['server', 'start-dev', '--ip', LOOPBACK, '--port', String(port), '--ui-port', String(uiPort)];
  // Relative to the working directory, since the server takes the name for a URI: a `#`, `?` or `%` in the home's
  // path would send its data elsewhere.
  args.push('--db-filename', 'temporal.db', '--namespace', namespace, '--log-level', 'error');
  for (const [key, value] of Object.entries(DYNAMIC_CONFIG))
    args.push('--dynamic-config-value', `${key}=${value}`);
  for (const [key, value] of Object.entries(SQLITE_PRAGMAS)) args.push('--sqlite-pragma', `${key}=${value}`);
  return args;
}

/** The server on record once it has answered; undefined when it ends meanwhile, so that a new one is started. */
async function already(
  record: ProcessRecord,
  port: number | undefined,
  uiPort: number | undefined,
  namespace: string,
  version: string,
): Promise<RunningTemporal | undefined> {
  if (port === undefined || uiPort === undefined) {
    throw new ServerStartError(
      `Temporal runs (pid ${record.pid}), but its ports are not on record. ${RESTART}`,
    );
  }
  try {
    await untilReady({ record }, port, namespace, ANSWER_LIMIT_MS);
  } catch (error) {
    if (!(await isAlive(record))) return undefined;
    throw new ServerStartError(
      `Temporal runs (pid ${record.pid}) but does not answer on ${LOOPBACK}:${port}: ${reasonOf(error)} ${RESTART}`,
      { pid: record.pid, port },
      { cause: error },
    );
  }
  return { address: `${LOOPBACK}:${port}`, pid: record.pid, port, uiPort, started: 'already', version };
}

const RESTART = "Run 'perdure down', then 'perdure up'.";

async function untilReady(
  { record, log }: Pick<Launched, 'record'> & Partial<Launched>,
  port: number,
  namespace: string,
  limitMs: number,
): Promise<void> {
  const end = Date.now() + limitMs;
  for (;;) {
    try {
      await serveNamespace(`${LOOPBACK}:${port}`, namespace);
      // If another server got the port first, that one answered and ours is gone.
      if (await isAlive(record)) return;
      throw new Error('another server answers on its port');
    } catch (error) {
      const tail = log === undefined ? '' : ` ${tailOf(log)}`;
      if (!(await isAlive(record))) {
        throw new ServerStartError(
          `Temporal ended while it was starting.${tail}`,
          { port },
          { cause: error },
        );
      }
      if (Date.now() > end) {
        throw new ServerStartError(
          `Temporal does not answer: ${reasonOf(error)}.${tail}`,
          { port },
          { cause: error },
        );
      }
      await delay(150);
    }
  }
}

/** Returns once the server describes the namespace; makes it when an older start of this home did not. */
async function serveNamespace(address: string, namespace: string): Promise<void> {
  // Loaded here since it is large and `down` and `status` do without.
  const { Connection, isGrpcServiceError } = await import('@temporalio/client');
  const { msToTs } = await import('@temporalio/common/lib/time.js');
  const connection = Connection.lazy({
    address,
    connectTimeout: 2_000,
    // A proxy of the environment must not get what goes to the loopback address.
    channelArgs: { 'grpc.enable_http_proxy': 0 },
  });
  try {
    await connection.ensureConnected();
    await connection.withDeadline(Date.now() + 5_000, async () => {
      try {
        await connection.workflowService.describeNamespace({ namespace });
      } catch (error) {
        const code: number | undefined = isGrpcServiceError(error) ? error.code : undefined;
        if (code !== GRPC_NOT_FOUND) throw error;
        await connection.workflowService.registerNamespace({
          namespace,
          workflowExecutionRetentionPeriod: msToTs(RETENTION),
        });
        // Registered, but frontends read their list of namespaces only now and then: the next round sees it.
        throw error;
      }
    });
  } finally {
    await connection.close();
  }
}

const GRPC_NOT_FOUND = 5;
/** As `start-dev` gives its namespaces. */
const RETENTION = '1 day';
