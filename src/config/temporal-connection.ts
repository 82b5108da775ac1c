import { readFileSync } from 'node:fs';
import { ConfigError } from '../contracts/errors.ts';
import type { TemporalServer, TemporalSettings } from './config.ts';

/** What both of Temporal's connections, the client's and the worker's, take. */
export type TemporalConnectionOptions = {
  address: string;
  apiKey?: string;
  tls?: {
    serverNameOverride?: string;
    serverRootCACertificate?: Buffer;
    clientCertPair?: { crt: Buffer; key: Buffer };
  };
};

/** @throws ConfigError when a certificate's file can't be read, or a certificate came without its key. */
export function temporalConnection(settings: TemporalServer): TemporalConnectionOptions {
  const { address, apiKey, tls } = settings;
  return { address, ...(apiKey ? { apiKey } : {}), ...(tls ? { tls: readTls(tls) } : {}) };
}

function readTls(tls: NonNullable<TemporalSettings['tls']>): NonNullable<TemporalConnectionOptions['tls']> {
  const { serverCaPath, clientCertPath, clientKeyPath, serverName } = tls;
  if ((clientCertPath === undefined) !== (clientKeyPath === undefined))
    throw new ConfigError(
      'TEMPORAL_TLS_CLIENT_CERT_PATH and TEMPORAL_TLS_CLIENT_KEY_PATH go together: set both or neither.',
    );
  return {
    ...(serverName ? { serverNameOverride: serverName } : {}),
    ...(serverCaPath
      ? { serverRootCACertificate: read('TEMPORAL_TLS_SERVER_CA_CERT_PATH', serverCaPath) }
      : {}),
    ...(clientCertPath && clientKeyPath
      ? {
          clientCertPair: {
            crt: read('TEMPORAL_TLS_CLIENT_CERT_PATH', clientCertPath),
            key: read('TEMPORAL_TLS_CLIENT_KEY_PATH', clientKeyPath),
          },
        }
      : {}),
  };
}

function read(variable: string, path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    throw new ConfigError(`${variable}: ${path} can't be read.`, { variable }, { cause: error });
  }
}
