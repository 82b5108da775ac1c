import { createHash } from 'node:crypto';
import pg from 'pg';
import { ConfigError } from '../contracts/errors.ts';
import { storageError } from './failures.ts';

/** A pool, and the schema in it that holds this installation. */
export type Database = {
  readonly pool: pg.Pool;
  readonly schema: string;
  /** The quoted, schema-qualified name of a table. */
  table(name: string): string;
  /** Runs `work` in one transaction; any error rolls it back. Connection failures become StorageUnavailableError. */
  transaction<T>(work: (client: pg.PoolClient) => Promise<T>): Promise<T>;
  /** One statement outside a transaction, with the same error mapping. */
  query<R extends pg.QueryResultRow>(text: string, values?: unknown[]): Promise<pg.QueryResult<R>>;
  /** The same for a text that never changes: each connection parses and plans it once. */
  prepared<R extends pg.QueryResultRow>(text: string, values: unknown[]): Promise<pg.QueryResult<R>>;
  close(): Promise<void>;
};

export type DatabaseOptions = {
  connectionString: string;
  /** Default `perdure`. Any name; it is quoted wherever it is used. */
  schema?: string;
  /** Connections at most. Default 10. */
  max?: number;
  /** How long to wait for a free or new connection, in ms. Default 5,000. */
  connectionTimeoutMillis?: number;
  /**
   * How long to wait for the answer to one statement, in ms. Its connection is closed then; the statement may still
   * take effect. Default: without end.
   */
  statementTimeoutMs?: number;
  /** Called with errors of idle connections, which are dropped from the pool. Default: nothing. */
  onIdleError?: (error: Error) => void;
};

/** Postgres cuts names at 63 bytes, silently: longer ones are refused here. */
const MAX_NAME_BYTES = 63;

export function quoteIdentifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

export function checkSchemaName(schema: string): string {
  if (schema === '' || schema.includes('\u0000') || Buffer.byteLength(schema) > MAX_NAME_BYTES)
    throw new ConfigError(
      `PERDURE_SCHEMA: '${schema}' can't name a Postgres schema (1 to 63 bytes, no NUL).`,
    );
  // LangGraph's PostgresSaver puts the name between quotes without doubling those in it.
  if (schema.includes('"'))
    throw new ConfigError(`PERDURE_SCHEMA: '${schema}' holds a double quote; choose a name without.`);
  return schema;
}

/** @throws ConfigError when the connection string or the schema's name is malformed. Connects lazily. */
export function openDatabase(options: DatabaseOptions): Database {
  const schema = checkSchemaName(options.schema ?? 'perdure');
  const pool = new pg.Pool({
    connectionString: options.connectionString,
    max: options.max ?? 10,
    connectionTimeoutMillis: options.connectionTimeoutMillis ?? 5_000,
    ...(options.statementTimeoutMs ? { query_timeout: options.statementTimeoutMs } : {}),
    application_name: 'perdure',
    keepAlive: true,
  });
  // Without a listener an idle connection that the server closes would end the process.
  pool.on('error', (error) => options.onIdleError?.(error));
  // So would one in use, inside a transaction: its next statement reports the same.
  pool.on('connect', (client) => client.on('error', () => undefined));
  const statements = new Statements();
  return {
    pool,
    schema,
    table: (name) => `${quoteIdentifier(schema)}.${quoteIdentifier(name)}`,
    transaction: (work) => transaction(pool, work),
    query: async (text, values) => {
      try {
        return await pool.query(text, values);
      } catch (error) {
        throw storageError(error);
      }
    },
    prepared: async (text, values) => {
      try {
        return await pool.query({ ...statements.of(text), values });
      } catch (error) {
        throw storageError(error);
      }
    },
    close: () => pool.end(),
  };
}

/** Names for statements, each bound to its text, so that one connection may serve several schemas. */
class Statements {
  readonly #known = new Map<string, { name: string; text: string }>();

  of(text: string): { name: string; text: string } {
    let statement = this.#known.get(text);
    if (!statement) {
      statement = { name: statementName(text), text };
      this.#known.set(text, statement);
    }
    return statement;
  }
}

/** The name under which connections keep a statement. */
export function statementName(text: string): string {
  return `perdure_${createHash('sha256').update(text).digest('hex').slice(0, 16)}`;
}

async function transaction<T>(pool: pg.Pool, work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
  let client: pg.PoolClient;
  try {
    client = await pool.connect();
  } catch (error) {
    throw storageError(error);
  }
  let broken: Error | undefined;
  try {
    await client.query('BEGIN');
    const result = await work(client);
    await client.query('COMMIT');
    return result;
  } catch (error) {
    const mapped = storageError(error);
    await client.query('ROLLBACK').catch((rollbackError: unknown) => {
      broken = rollbackError instanceof Error ? rollbackError : new Error(String(rollbackError));
    });
    throw mapped;
  } finally {
    client.release(broken);
  }
}
