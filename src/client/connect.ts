import { Client, Connection } from '@temporalio/client';
import type { TemporalServer } from '../config/config.ts';
import { temporalConnection } from '../config/temporal-connection.ts';
import { openDatabase } from '../postgres/database.ts';
import { PerdureClient } from './client.ts';
import { temporalError } from './wake.ts';

export type ConnectOptions = {
  databaseUrl: string;
  temporal: TemporalServer;
  /** Default `perdure`. */
  schema?: string;
  /** Default `default`. */
  tenant?: string;
  /** Connections to Postgres at most. Default 10. */
  poolSize?: number;
};

/** How long connect() waits for Temporal, in ms. */
const CONNECT_TIMEOUT_MS = 10_000;

/**
 * Opens a client. Temporal is reached at once, Postgres with the first call.
 * @throws TemporalUnavailableError | ConfigError
 */
export async function connect(options: ConnectOptions): Promise<PerdureClient> {
  let connection: Connection;
  try {
    connection = await Connection.connect({
      ...temporalConnection(options.temporal),
      connectTimeout: CONNECT_TIMEOUT_MS,
    });
  } catch (error) {
    throw temporalError(error);
  }
  const database = openDatabase({
    connectionString: options.databaseUrl,
    ...(options.schema ? { schema: options.schema } : {}),
    ...(options.poolSize ? { max: options.poolSize } : {}),
  });
  const temporal = new Client({ connection, namespace: options.temporal.namespace ?? 'default' });
  return new PerdureClient({
    database,
    temporal,
    tenant: options.tenant ?? 'default',
    close: async () => {
      await Promise.all([connection.close(), database.close()]);
    },
  });
}
