import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, mkdirSync, openSync, closeSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Connection } from '@temporalio/client';
import getPort, { portNumbers } from 'get-port';
import type { ClusterBinaries } from './build.ts';

const READY_LIMIT_MS = 90_000;
const RETENTION_S = 3 * 24 * 3_600;

export type ClusterOptions = {
  /** Where its configuration and its log go. */
  folder: string;
  binaries: ClusterBinaries;
  /** A superuser's connection: two databases are made beside the one that it names. */
  databaseUrl: string;
  progress: (line: string) => void;
};

export type Cluster = { address: string; stop(): Promise<void> };

/** Lays Temporal's tables, starts its four services in one process, and registers the namespace `default`. */
export async function startCluster(options: ClusterOptions): Promise<Cluster> {
  const { folder, binaries, databaseUrl, progress } = options;
  const url = new URL(databaseUrl);
  for (const [database, schema] of [
    ['temporal', 'temporal'],
    ['temporal_visibility', 'visibility'],
  ] as const) {
    progress(`laying the tables of ${database}`);
    const tool = (...args: string[]) => sqlTool(binaries.sql, url, database, args);
    await tool('create-database');
    await tool('setup-schema', '-v', '0.0');
    await tool('update-schema', '--schema-name', `postgresql/v12/${schema}`);
  }
  const ports = await freePorts();
  writeConfiguration(folder, url, ports);
  const log = openSync(join(folder, 'temporal.log'), 'a');
  const server = spawn(
    binaries.server,
    ['--root', folder, '--config', 'config', '--env', 'perdure', '--allow-no-auth', 'start'],
    { cwd: folder, stdio: ['ignore', log, log] },
  );
  closeSync(log);
  const stop = async () => {
    if (server.exitCode !== null || server.signalCode !== null) return;
    const ended = once(server, 'exit');
    server.kill('SIGTERM');
    const late = setTimeout(() => server.kill('SIGKILL'), 20_000);
    await ended;
    clearTimeout(late);
  };
  const address = `127.0.0.1:${ports.frontend}`;
  try {
    await registerNamespace(address, () => server.exitCode ?? server.signalCode);
  } catch (error) {
    await stop();
    const said = readFileSync(join(folder, 'temporal.log'), 'utf8').slice(-2_000);
    throw new Error(`Temporal did not come up. The end of its log:\n${said}`, { cause: error });
  }
  progress(`Temporal ${binaries.version} on Postgres is ready on ${address} (pid ${server.pid})`);
  return { address, stop };
}

async function sqlTool(sql: string, url: URL, database: string, args: string[]): Promise<void> {
  const connection = ['--plugin', 'postgres12', '--ep', url.hostname, '-p', url.port, '-u', url.username];
  const child = spawn(sql, [...connection, '--db', database, ...args], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { ...process.env, SQL_PASSWORD: decodeURIComponent(url.password) },
  });
  let said = '';
  child.stderr.on('data', (chunk: Buffer) => {
    said = (said + chunk.toString()).slice(-2_000);
  });
  const [code] = (await once(child, 'exit')) as [number | null];
  if (code !== 0) throw new Error(`Temporal's SQL tool failed at ${args[0]} of ${database}: ${said}`);
}

type Ports = Record<'frontend' | 'http' | 'history' | 'matching' | 'worker', number> & {
  membership: number[];
};

async function freePorts(): Promise<Ports> {
  const all: number[] = [];
  // The server keeps its ports as 16-bit numbers with a sign.
  const first = 15_000 + (process.pid % 1_000) * 10;
  while (all.length < 9)
    all.push(await getPort({ host: '127.0.0.1', port: portNumbers(first, 32_000), exclude: all }));
  const [frontend = 0, http = 0, history = 0, matching = 0, worker = 0, ...membership] = all;
  return { frontend, http, history, matching, worker, membership };
}

/** The same dynamic configuration as docker-compose.yml's server has. */
function writeConfiguration(folder: string, url: URL, ports: Ports): void {
  mkdirSync(join(folder, 'config'), { recursive: true });
  const dynamic = join(folder, 'config', 'dynamicconfig.yaml');
  copyFileSync(fileURLToPath(new URL('../../deploy/temporal/dynamicconfig.yaml', import.meta.url)), dynamic);
  const store = (databaseName: string, maxConns: number) => ({
    sql: {
      pluginName: 'postgres12',
      databaseName,
      connectAddr: url.host,
      connectProtocol: 'tcp',
      user: url.username,
      password: decodeURIComponent(url.password),
      maxConns,
      maxIdleConns: maxConns,
      maxConnLifetime: '1h',
    },
  });
  const [frontend, history, matching, worker] = ports.membership;
  const rpc = (grpcPort: number, membershipPort: number | undefined) => ({
    rpc: { grpcPort, membershipPort, bindOnLocalHost: true },
  });
  const configuration = {
    log: { stdout: true, level: 'error' },
    persistence: {
      defaultStore: 'default',
      visibilityStore: 'visibility',
      numHistoryShards: 4,
      datastores: { default: store('temporal', 20), visibility: store('temporal_visibility', 4) },
    },
    global: { membership: { maxJoinDuration: '30s', broadcastAddress: '127.0.0.1' } },
    services: {
      frontend: {
        rpc: {
          grpcPort: ports.frontend,
          membershipPort: frontend,
          bindOnLocalHost: true,
          httpPort: ports.http,
        },
      },
      history: rpc(ports.history, history),
      matching: rpc(ports.matching, matching),
      worker: rpc(ports.worker, worker),
    },
    clusterMetadata: {
      enableGlobalNamespace: false,
      failoverVersionIncrement: 10,
      masterClusterName: 'active',
      currentClusterName: 'active',
      clusterInformation: {
        active: {
          enabled: true,
          initialFailoverVersion: 1,
          rpcName: 'frontend',
          rpcAddress: `localhost:${ports.frontend}`,
        },
      },
    },
    dcRedirectionPolicy: { policy: 'noop' },
    publicClient: { hostPort: `127.0.0.1:${ports.frontend}` },
    dynamicConfigClient: { filepath: dynamic, pollInterval: '60s' },
  };
  // JSON is YAML.
  writeFileSync(join(folder, 'config', 'perdure.yaml'), JSON.stringify(configuration, null, 2), {
    mode: 0o600,
  });
}

async function registerNamespace(address: string, ended: () => unknown): Promise<void> {
  const deadline = Date.now() + READY_LIMIT_MS;
  for (;;) {
    try {
      const connection = await Connection.connect({ address, connectTimeout: '2 seconds' });
      try {
        await register(connection);
        return;
      } finally {
        await connection.close();
      }
    } catch (error) {
      if (ended() !== null || Date.now() > deadline) throw error;
      await new Promise((resolve) => {
        setTimeout(resolve, 250);
      });
    }
  }
}

/** Made, and known to the services that keep a copy of the list of namespaces. */
async function register(connection: Connection): Promise<void> {
  try {
    await connection.workflowService.registerNamespace({
      namespace: 'default',
      workflowExecutionRetentionPeriod: { seconds: RETENTION_S as never },
    });
  } catch (error) {
    if (!String(error).includes('ALREADY_EXISTS')) throw error;
  }
  await connection.workflowService.listOpenWorkflowExecutions({ namespace: 'default' });
}
