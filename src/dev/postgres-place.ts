import { createHash } from 'node:crypto';
import {
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { codeOf, HomeUnusableError } from './errors.ts';
import { canWriteIn, isRoot, type OsUser } from './os-user.ts';

/** Where root puts what another user must reach, best first: the first one that can be made is taken. */
const SHARED_PLACES = ['/var/lib/perdure', '/var/tmp/perdure', join(tmpdir(), 'perdure')];
/** In a folder outside of its home, names the home. */
const OWNER_NOTE = 'home';

/** The data folder's name once it is whole, and while it is being made. */
export const DATA = 'data';
export const UNFINISHED_DATA = 'data.unfinished';

/** The folder that holds Postgres's data folder, and who runs Postgres there. */
export interface PostgresPlace {
  directory: string;
  dataDir: string;
  user: OsUser | undefined;
  /** Whether a whole data folder is there already. */
  hasData: boolean;
}

/**
 * Finds or makes the place of a home's Postgres data: `<home>/postgres`, or, when the user that runs Postgres can't
 * reach that (a home below /root), a folder outside that `<home>/postgres` links to. Nobody's permissions are changed.
 * @throws HomeUnusableError when existing data can't be reached by its owner, or no place can be made.
 */
export async function findPostgresPlace(
  home: string,
  user: OsUser | undefined,
  onProgress: (line: string) => void,
): Promise<PostgresPlace> {
  const inside = join(home, 'postgres');
  forgetForeignLink(home, inside, onProgress);
  if (isThere(inside) && hasData(inside)) {
    const directory = realpathSync(inside);
    const dataDir = join(directory, DATA);
    // Data of a home that a normal user made is run as that user when root comes by.
    const owner = user === undefined ? undefined : ownerOf(dataDir);
    if (!(await canWriteIn(dataDir, owner))) {
      throw new HomeUnusableError(
        `${dataDir} holds Postgres data that ${owner === undefined ? 'you' : `its owner (user ${owner.uid})`} can't ` +
          'write. Give the folder back to its owner, or move it to a place that its owner can reach.',
        { home, dataDir },
      );
    }
    return { directory, dataDir, user: owner, hasData: true };
  }
  if (!isLink(inside)) {
    mkdirSync(inside, { recursive: true });
    if (await canHold(inside, user)) return emptyPlace(realpathSync(inside), user);
    rmdirSync(inside);
  }
  const outside = isLink(inside) ? readlinkSync(inside) : outsideOf(home);
  mkdirSync(outside, { recursive: true, mode: 0o755 });
  writeFileSync(join(outside, OWNER_NOTE), `${home}\n`);
  if (!(await canHold(outside, user))) {
    throw new HomeUnusableError(`${outside} can't be used for Postgres data. Set DATABASE_URL instead.`, {
      outside,
    });
  }
  if (!isLink(inside)) symlinkSync(outside, inside);
  onProgress(`Postgres data goes to ${outside}: the user that runs Postgres can't reach ${home}`);
  return emptyPlace(outside, user);
}

/** Where root keeps copies of the Postgres binaries and data of homes that other users can't reach. */
export function sharedPlace(): string {
  const reasons: string[] = [];
  for (const place of SHARED_PLACES) {
    try {
      mkdirSync(place, { recursive: true, mode: 0o755 });
      const stat = lstatSync(place);
      // In a folder like /tmp somebody else could have laid a trap under this name.
      if (stat.isDirectory() && stat.uid === process.getuid?.() && (stat.mode & 0o022) === 0) return place;
      reasons.push(`${place} is not a folder of root alone`);
    } catch (error) {
      reasons.push(`${place}: ${codeOf(error) ?? String(error)}`);
    }
  }
  throw new HomeUnusableError(`No place for Postgres that its user can reach: ${reasons.join('; ')}.`, {});
}

/** The folder outside that this home's data lies in, if it does and is really this home's. */
export function outsidePlaceOf(home: string): string | undefined {
  const inside = join(home, 'postgres');
  if (!isLink(inside)) return undefined;
  const outside = readlinkSync(inside);
  return ownerNoteOf(outside) === home ? outside : undefined;
}

/** The folder of this home's Postgres, wherever it lies, or undefined when the home has none of its own. */
export function postgresDirectoryOf(home: string): string | undefined {
  const inside = join(home, 'postgres');
  if (!existsSync(inside) || (isLink(inside) && outsidePlaceOf(home) === undefined)) return undefined;
  return realpathSync(inside);
}

/** A copied home links to the data of the original, which must not be touched; a moved home takes its data along. */
function forgetForeignLink(home: string, inside: string, onProgress: (line: string) => void): void {
  if (!isLink(inside)) return;
  const outside = readlinkSync(inside);
  const owner = ownerNoteOf(outside);
  if (owner === home) return;
  if (owner !== undefined && !existsSync(owner)) {
    writeFileSync(join(outside, OWNER_NOTE), `${home}\n`);
    return;
  }
  rmSync(inside);
  onProgress(
    `${inside} led to ${outside}, which ${owner === undefined ? 'is gone' : `belongs to ${owner}`}; starting empty`,
  );
}

function ownerNoteOf(outside: string): string | undefined {
  try {
    return readFileSync(join(outside, OWNER_NOTE), 'utf8').trim();
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

function outsideOf(home: string): string {
  if (!isRoot()) {
    throw new HomeUnusableError(`${home} can't be written. Is the folder yours?`, { home });
  }
  const hash = createHash('sha256').update(home).digest('hex').slice(0, 12);
  return join(sharedPlace(), hash);
}

async function canHold(directory: string, user: OsUser | undefined): Promise<boolean> {
  const probe = join(directory, 'probe');
  mkdirSync(probe, { recursive: true, mode: 0o700 });
  if (user !== undefined) chownSync(probe, user.uid, user.gid);
  const can = await canWriteIn(probe, user);
  rmSync(probe, { recursive: true });
  return can;
}

function emptyPlace(directory: string, user: OsUser | undefined): PostgresPlace {
  return { directory, dataDir: join(directory, DATA), user, hasData: false };
}

function ownerOf(path: string): OsUser {
  const { uid, gid } = statSync(path);
  return { uid, gid };
}

/** The data folder gets its name only once it is whole. */
function hasData(inside: string): boolean {
  return isThere(join(inside, DATA));
}

function isThere(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
}

function isLink(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() ?? false;
}
