import { execFile, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chownSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { endOf } from './child-end.ts';
import { reasonOf, ServerStartError } from './errors.ts';
import type { PostgresBinaries } from './postgres-binaries.ts';
import { UNFINISHED_DATA, type PostgresPlace } from './postgres-place.ts';
import { isForPostgres, without } from './child-environment.ts';
import { findProcesses } from './processes.ts';

const run = promisify(execFile);

/** The superuser that `initdb` makes. */
export const SUPERUSER = 'postgres';

export function newPassword(): string {
  return randomBytes(24).toString('hex');
}

/**
 * Makes the data folder: UTF-8, with Postgres's own collation, so that an index does not depend on the machine's.
 * It is made under another name and renamed, so that one cut short is never taken for whole.
 * @throws ServerStartError with what `initdb` said.
 */
export async function initialiseData(
  binaries: PostgresBinaries,
  place: PostgresPlace,
  password: string,
): Promise<void> {
  const unfinished = join(place.directory, UNFINISHED_DATA);
  const passwordFile = join(place.directory, 'password.tmp');
  rmSync(unfinished, { recursive: true, force: true });
  mkdirSync(unfinished, { mode: 0o700 });
  writeFileSync(passwordFile, `${password}\n`, { mode: 0o600 });
  if (place.user !== undefined) {
    for (const path of [unfinished, passwordFile]) chownSync(path, place.user.uid, place.user.gid);
  }
  const args = [
    `--pgdata=${unfinished}`,
    `--username=${SUPERUSER}`,
    `--pwfile=${passwordFile}`,
    '--auth=scram-sha-256',
    '--encoding=UTF8',
    '--locale=C',
    '--locale-provider=builtin',
    '--builtin-locale=C.UTF-8',
  ];
  try {
    await run(binaries.initdb, args, {
      cwd: unfinished,
      env: without(process.env, isForPostgres),
      timeout: 120_000,
      ...place.user,
    });
    renameSync(unfinished, place.dataDir);
  } catch (error) {
    rmSync(unfinished, { recursive: true, force: true });
    throw new ServerStartError(`Postgres's initdb failed: ${outputOf(error)}`, { args }, { cause: error });
  } finally {
    rmSync(passwordFile, { force: true });
  }
}

/** @throws ServerStartError when the data was made by another major version than the binaries'. */
export async function checkDataVersion(binaries: PostgresBinaries, place: PostgresPlace): Promise<void> {
  const made = readFileSync(join(place.dataDir, 'PG_VERSION'), 'utf8').trim();
  const { stdout } = await run(binaries.postgres, ['--version'], { cwd: '/', ...place.user });
  const major = /(\d+)(\.|beta|rc|\s|$)/.exec(stdout)?.[1];
  if (made === major) return;
  throw new ServerStartError(
    `${place.dataDir} was made by Postgres ${made}, and this is ${stdout.trim()}. Move the data over with ` +
      'pg_dump from the older version, or start with an empty home.',
    { dataDir: place.dataDir, made, major },
  );
}

/**
 * Sets the superuser's password while no server runs (its record was lost), in Postgres's single-user mode.
 * @throws ServerStartError with what Postgres said.
 */
export async function resetPassword(
  binaries: PostgresBinaries,
  place: PostgresPlace,
  password: string,
): Promise<void> {
  const child = spawn(binaries.postgres, ['--single', '-D', place.dataDir, 'postgres'], {
    cwd: place.dataDir,
    env: without(process.env, isForPostgres),
    stdio: ['pipe', 'ignore', 'pipe'],
    ...place.user,
  });
  const end = endOf(child);
  child.stdin.end(`ALTER USER ${SUPERUSER} PASSWORD '${password}'\n`);
  const { code, said } = await end;
  if (code !== 0 || /^.*(ERROR|FATAL):/m.test(said)) {
    throw new ServerStartError(`The lost Postgres password can't be set anew: ${said}`, {});
  }
}

/**
 * Removes a `postmaster.pid` whose pid now belongs to some other program (after a crash and a reboot, or in a new
 * container): Postgres would take that for a running server. One whose process is dead Postgres removes itself.
 */
export async function removeStalePostmasterPid(dataDir: string): Promise<void> {
  const path = join(dataDir, 'postmaster.pid');
  if (!existsSync(path)) return;
  const pid = Number(readFileSync(path, 'utf8').split('\n')[0]);
  const servers = await findProcesses(dataDir, '-D');
  if (servers.some((server) => server.pid === pid)) return;
  if (isSomeProcess(pid)) rmSync(path, { force: true });
}

function isSomeProcess(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    // ESRCH: dead. EPERM: another user's, which Postgres knows not to be its own.
    return false;
  }
}

function outputOf(error: unknown): string {
  const said = error instanceof Error && 'stderr' in error ? String(error.stderr).trim() : '';
  return said === '' ? reasonOf(error) : said;
}
