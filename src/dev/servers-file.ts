import { existsSync, mkdirSync, readFileSync, realpathSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { defined } from './defined.ts';
import { codeOf, HomeUnusableError } from './errors.ts';

const processSchema = z.object({ pid: z.number().int().positive(), identity: z.string() });

const serversSchema = z.object({
  format: z.literal(1),
  /** Where this file was written: a copy of a home must not take the servers of the original for its own. */
  home: z.string(),
  postgres: z
    .object({
      port: z.number().optional(),
      password: z.string().optional(),
      dataDir: z.string().optional(),
      version: z.string().optional(),
      process: processSchema.optional(),
    })
    .default({}),
  temporal: z
    .object({
      port: z.number().optional(),
      uiPort: z.number().optional(),
      version: z.string().optional(),
      process: processSchema.optional(),
    })
    .default({}),
});

/** What `servers.json` in the home remembers about its servers. */
export type Servers = z.infer<typeof serversSchema>;

/** `servers.json` of one home, held by whoever holds the home's lock. */
export class ServersFile {
  readonly path: string;
  readonly servers: Servers;

  constructor(path: string, servers: Servers) {
    this.path = path;
    this.servers = servers;
  }

  /** Changes what is remembered about Postgres; an undefined field is forgotten. */
  updatePostgres(change: { [K in keyof Servers['postgres']]: Servers['postgres'][K] | undefined }): void {
    this.servers.postgres = defined({ ...this.servers.postgres, ...change });
    this.save();
  }

  /** Changes what is remembered about Temporal; an undefined field is forgotten. */
  updateTemporal(change: { [K in keyof Servers['temporal']]: Servers['temporal'][K] | undefined }): void {
    this.servers.temporal = defined({ ...this.servers.temporal, ...change });
    this.save();
  }

  private save(): void {
    const temporary = `${this.path}.new`;
    writeFileSync(temporary, `${JSON.stringify(this.servers, null, 2)}\n`, { mode: 0o600 });
    renameSync(temporary, this.path);
  }
}

/** Makes the home and its folders where they are missing, and returns its real path. @throws HomeUnusableError */
export function makeHome(home: string): string {
  try {
    mkdirSync(home, { recursive: true });
    mkdirSync(logsOf(home), { recursive: true, mode: 0o700 });
    mkdirSync(join(home, 'temporal'), { recursive: true, mode: 0o700 });
    // A home usually lies in a project's folder, and it holds a password.
    if (!existsSync(join(home, '.gitignore'))) writeFileSync(join(home, '.gitignore'), '*\n');
    return realpathSync(home);
  } catch (error) {
    throw new HomeUnusableError(`${home} can't be made: ${String(error)}`, { home }, { cause: error });
  }
}

/** Whether `up` made this folder. */
export function isHome(home: string): boolean {
  return [logsOf(home), join(home, 'temporal'), join(home, '.gitignore')].every((path) => existsSync(path));
}

export function logsOf(home: string): string {
  return join(home, 'logs');
}

/** The ports on record of a server, which its neighbour should leave free. */
export function portsOf(server: { port?: number | undefined; uiPort?: number | undefined }): number[] {
  return [server.port, server.uiPort].filter((port) => port !== undefined);
}

/**
 * Reads `servers.json` for one who holds the home's lock. A missing file is an empty one; a damaged one is set aside,
 * since everything in it can be found or made again.
 * @throws HomeUnusableError when another user's file is in the way.
 */
export function readServersFile(home: string, onProgress: (line: string) => void): ServersFile {
  const path = pathIn(home);
  const servers = readServers(home);
  if (servers !== 'damaged') return new ServersFile(path, servers);
  renameSync(path, `${path}.damaged`);
  onProgress(`${path} was damaged; it was set aside as servers.json.damaged`);
  return new ServersFile(path, emptyOf(home));
}

/** What `servers.json` says; changes nothing. @throws HomeUnusableError */
export function readServers(home: string): Servers | 'damaged' {
  const text = readIfThere(pathIn(home));
  if (text === undefined) return emptyOf(home);
  const parsed = serversSchema.safeParse(parseJson(text));
  if (!parsed.success) return 'damaged';
  const servers = parsed.data;
  if (servers.home !== home && existsSync(servers.home)) {
    delete servers.postgres.process;
    delete servers.temporal.process;
  }
  return { ...servers, home };
}

function pathIn(home: string): string {
  return join(home, 'servers.json');
}

export function emptyOf(home: string): Servers {
  return { format: 1, home, postgres: {}, temporal: {} };
}

function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw new HomeUnusableError(
      `${path} can't be read (${codeOf(error) ?? 'error'}): the servers of this home were started by another user.`,
      { path },
      { cause: error },
    );
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}
