import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { z } from 'zod';
import { ConfigError } from '../contracts/errors.ts';
import { DEFAULT_TENANT, tenantId } from '../contracts/ids.ts';
import { parseArtifactPlace, type ArtifactSettings } from './artifact-settings.ts';

type Environment = Record<string, string | undefined>;

const integer = (min: number, max: number) =>
  z.string().regex(/^\d+$/, 'must be a whole number').transform(Number).pipe(z.int().min(min).max(max));

const url = (protocols: string[]) =>
  z.string().refine(
    (text) => {
      try {
        return protocols.includes(new URL(text).protocol);
      } catch {
        return false;
      }
    },
    `must be a URL that begins with ${protocols.map((p) => `${p}//`).join(' or ')}`,
  );

/** Every variable that perdure reads, with its default. docs/configuration.md is the same list for people. */
const variables = z.object({
  DATABASE_URL: url(['postgres:', 'postgresql:']).optional(),
  PERDURE_SCHEMA: z.string().min(1).default('perdure'),
  PERDURE_TENANT: tenantId.default(DEFAULT_TENANT),
  PERDURE_HOME: z.string().min(1).optional(),
  PATH: z.string().optional(),
  PERDURE_CACHE: z.string().min(1).optional(),
  XDG_CACHE_HOME: z.string().optional(),
  PERDURE_TEMPORAL_CLI: z.string().min(1).optional(),
  TEMPORAL_ADDRESS: z
    .string()
    .regex(/^[^\s/]+:\d+$/, 'must be host:port')
    .optional(),
  TEMPORAL_NAMESPACE: z.string().min(1).default('default'),
  TEMPORAL_API_KEY: z.string().min(1).optional(),
  TEMPORAL_TLS: z.enum(['true', 'false', '1', '0']).optional(),
  TEMPORAL_TLS_SERVER_CA_CERT_PATH: z.string().min(1).optional(),
  TEMPORAL_TLS_CLIENT_CERT_PATH: z.string().min(1).optional(),
  TEMPORAL_TLS_CLIENT_KEY_PATH: z.string().min(1).optional(),
  TEMPORAL_TLS_SERVER_NAME: z.string().min(1).optional(),
  PERDURE_LOG_LEVEL: z.enum(['trace', 'debug', 'info', 'warn', 'error', 'silent']).default('warn'),
  PERDURE_POOL_SIZE: integer(2, 1_000).default(10),
  PERDURE_STATEMENT_TIMEOUT_MS: integer(1_000, 86_400_000).default(60_000),
  PERDURE_MAX_CONCURRENT_SEGMENTS: integer(1, 10_000).default(100),
  PERDURE_MAX_CACHED_WORKFLOWS: integer(1, 100_000).default(200),
  PERDURE_TASK_QUEUES: z.string().optional(),
  PERDURE_SEGMENT_BUDGET_MS: integer(1_000, 86_400_000).default(600_000),
  PERDURE_ARTIFACTS: z.string().min(1).optional(),
  PERDURE_S3_ENDPOINT: url(['http:', 'https:']).optional(),
  PERDURE_S3_PATH_STYLE: z.enum(['true', 'false', '1', '0']).optional(),
  AWS_REGION: z.string().optional(),
  PERDURE_FAULT: z.string().optional(),
  PERDURE_FAULT_ONCE_FILE: z.string().optional(),
  USER: z.string().optional(),
});

export type TemporalSettings = {
  /** host:port; undefined means the embedded server of `home`. */
  address: string | undefined;
  namespace: string;
  apiKey: string | undefined;
  /** Set where TLS is asked for, by itself or because of an API key or a certificate. */
  tls:
    | { serverCaPath?: string; clientCertPath?: string; clientKeyPath?: string; serverName?: string }
    | undefined;
};

/** A Temporal server to connect to. */
export type TemporalServer = {
  /** host:port */
  address: string;
  /** Default `default`. It must exist. */
  namespace?: string | undefined;
  apiKey?: string | undefined;
  /** Default: no TLS. `{}` is TLS with the system's certificates. */
  tls?: TemporalSettings['tls'];
};

/** Settings of one process. Read once, at its entry point, and handed down. */
export type Config = {
  /** Postgres to use; undefined means the embedded server of `home`. */
  databaseUrl: string | undefined;
  schema: string;
  tenant: string;
  /** The folder of the embedded servers' data. */
  home: string;
  /** The folder of downloads and builds that many homes share. */
  cache: string;
  temporalCli: string | undefined;
  /** Where programs are looked for: PATH. */
  searchPath: string;
  temporal: TemporalSettings;
  logLevel: 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'silent';
  poolSize: number;
  /** How long a worker waits for the answer to one statement, in ms. */
  statementTimeoutMs: number;
  worker: {
    /** Segments that one worker runs at a time, per graph version. */
    maxConcurrentSegments: number;
    /** Workflows that a worker keeps in memory, per graph version; the others are replayed when they wake. */
    maxCachedWorkflows: number;
    /** How long a segment works before it hands over, in ms. */
    segmentBudgetMs: number;
    /** Task queues that the worker serves: `graphs`, and those that policies of nodes name. Undefined: all. */
    taskQueues: string[] | undefined;
  };
  /** Where artifacts lie; undefined: in `home`. See {@link artifactSettings}. */
  artifacts: ArtifactSettings | undefined;
  /** For tests: where to end the process. See telemetry/fault-points.ts. */
  fault: { point: string; nth?: number; onceFile?: string } | undefined;
  /** Who answers and asks when the command isn't told: `user:<login>`. */
  actor: string;
};

/**
 * Reads the environment.
 * @param cwd the folder that relative paths and the default home (`.perdure`) start from.
 * @throws ConfigError that names the variable.
 */
export function readConfig(environment: Environment, cwd: string): Config {
  const parsed = variables.safeParse(blankAsUnset(environment));
  if (!parsed.success) {
    const issue = parsed.error.issues[0];
    const name = String(issue?.path[0] ?? 'environment');
    throw new ConfigError(`${name}: ${issue?.message ?? 'is invalid'}. Correct or unset it.`, {
      variable: name,
    });
  }
  const env = parsed.data;
  return {
    databaseUrl: env.DATABASE_URL,
    schema: env.PERDURE_SCHEMA,
    tenant: env.PERDURE_TENANT,
    home: resolve(cwd, env.PERDURE_HOME ?? '.perdure'),
    cache: resolve(
      cwd,
      env.PERDURE_CACHE ?? join(env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'perdure'),
    ),
    temporalCli: env.PERDURE_TEMPORAL_CLI,
    searchPath: env.PATH ?? '',
    temporal: temporalSettings(env),
    logLevel: env.PERDURE_LOG_LEVEL,
    poolSize: env.PERDURE_POOL_SIZE,
    statementTimeoutMs: env.PERDURE_STATEMENT_TIMEOUT_MS,
    worker: {
      maxConcurrentSegments: env.PERDURE_MAX_CONCURRENT_SEGMENTS,
      maxCachedWorkflows: env.PERDURE_MAX_CACHED_WORKFLOWS,
      segmentBudgetMs: env.PERDURE_SEGMENT_BUDGET_MS,
      taskQueues: env.PERDURE_TASK_QUEUES?.split(',').map((name) => name.trim()),
    },
    artifacts:
      env.PERDURE_ARTIFACTS === undefined
        ? undefined
        : parseArtifactPlace(env.PERDURE_ARTIFACTS, cwd, {
            endpoint: env.PERDURE_S3_ENDPOINT,
            region: env.AWS_REGION,
            pathStyle: asBoolean(env.PERDURE_S3_PATH_STYLE),
          }),
    fault: parseFault(env.PERDURE_FAULT, env.PERDURE_FAULT_ONCE_FILE),
    actor: `user:${env.USER ?? 'unknown'}`,
  };
}

/** Whether LangChain sends what it runs to LangSmith: one of the variables that it looks for is `true`. */
export function tracesToLangSmith(environment: Environment): boolean {
  return ['LANGSMITH', 'LANGCHAIN'].some(
    (name) => environment[`${name}_TRACING`] === 'true' || environment[`${name}_TRACING_V2`] === 'true',
  );
}

/** Where the bytes of artifacts lie. */
export function artifactSettings({ artifacts, home }: Config): ArtifactSettings {
  return artifacts ?? { kind: 'folder', folder: join(home, 'artifacts') };
}

function asBoolean(text: string | undefined): boolean | undefined {
  return text === undefined ? undefined : text === 'true' || text === '1';
}

function blankAsUnset(environment: Environment): Environment {
  return Object.fromEntries(
    Object.entries(environment).filter(([, value]) => value !== undefined && value !== ''),
  );
}

function temporalSettings(env: z.infer<typeof variables>): TemporalSettings {
  const wanted =
    env.TEMPORAL_TLS === 'true' ||
    env.TEMPORAL_TLS === '1' ||
    (env.TEMPORAL_TLS === undefined &&
      (env.TEMPORAL_API_KEY ?? env.TEMPORAL_TLS_SERVER_CA_CERT_PATH ?? env.TEMPORAL_TLS_CLIENT_CERT_PATH) !==
        undefined);
  return {
    address: env.TEMPORAL_ADDRESS,
    namespace: env.TEMPORAL_NAMESPACE,
    apiKey: env.TEMPORAL_API_KEY,
    tls: wanted
      ? {
          ...(env.TEMPORAL_TLS_SERVER_CA_CERT_PATH
            ? { serverCaPath: env.TEMPORAL_TLS_SERVER_CA_CERT_PATH }
            : {}),
          ...(env.TEMPORAL_TLS_CLIENT_CERT_PATH ? { clientCertPath: env.TEMPORAL_TLS_CLIENT_CERT_PATH } : {}),
          ...(env.TEMPORAL_TLS_CLIENT_KEY_PATH ? { clientKeyPath: env.TEMPORAL_TLS_CLIENT_KEY_PATH } : {}),
          ...(env.TEMPORAL_TLS_SERVER_NAME ? { serverName: env.TEMPORAL_TLS_SERVER_NAME } : {}),
        }
      : undefined,
  };
}

/** `operation:effect-done` or, for its third passing, `operation:effect-done#3`. */
function parseFault(text: string | undefined, onceFile: string | undefined): Config['fault'] {
  if (text === undefined) return undefined;
  const match = /^(?<point>[^#]+)(?:#(?<nth>\d+))?$/.exec(text);
  if (!match?.groups?.['point'])
    throw new ConfigError(`PERDURE_FAULT: '${text}' is not POINT or POINT#N.`, { variable: 'PERDURE_FAULT' });
  return {
    point: match.groups['point'],
    ...(match.groups['nth'] ? { nth: Number(match.groups['nth']) } : {}),
    ...(onceFile ? { onceFile } : {}),
  };
}

/** A connection string that may be printed. */
export function maskPassword(connectionString: string): string {
  return connectionString
    .replace(/^([a-z]+:\/\/[^:@/]*):[^@]*@/i, '$1:***@')
    .replace(/([?&]password=)[^&]*/gi, '$1***');
}
