import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { reasonOf, ServerStartError } from './errors.ts';

const run = promisify(execFile);

/** The OS user to run a process as, in the form `spawn` takes. */
export interface OsUser {
  uid: number;
  gid: number;
}

/** Debian and Red Hat name it one way, macOS the other. */
const NAMES = ['postgres', '_postgres'];

export function isRoot(): boolean {
  return process.getuid?.() === 0;
}

/**
 * Postgres refuses to run as root, so root runs it as the user `postgres`, who is made where missing. Undefined
 * when this process isn't root and no other user is needed.
 * @throws ServerStartError when there is no such user and none can be made.
 */
export async function postgresUser(onProgress: (line: string) => void): Promise<OsUser | undefined> {
  if (!isRoot()) return undefined;
  for (const name of NAMES) {
    const user = await lookUp(name);
    if (user !== undefined) return user;
  }
  try {
    await run('groupadd', ['-f', 'postgres']);
    await run('useradd', ['-g', 'postgres', '-M', '-s', '/usr/sbin/nologin', 'postgres']);
    const made = await lookUp('postgres');
    if (made === undefined) throw new Error('it was made but is not found');
    onProgress('made the OS user postgres: Postgres refuses to run as root');
    return made;
  } catch (error) {
    throw new ServerStartError(
      `Postgres refuses to run as root, and the OS user 'postgres' can't be made (${reasonOf(error)}). ` +
        'Make that user, or start perdure as a normal user, or set DATABASE_URL.',
      {},
      { cause: error },
    );
  }
}

/** Whether this user (this process's own when undefined) can enter the folder and write in it. */
export async function canWriteIn(directory: string, user: OsUser | undefined): Promise<boolean> {
  // Asked of the system itself, which knows modes, ACLs and mount options; the script is constant, `$1` the folder.
  return await succeeds('/bin/sh', ['-c', 'cd "$1" && test -w . && test -x .', 'sh', directory], user);
}

/** Whether the command ends with 0 as this user. */
export async function succeeds(command: string, args: string[], user: OsUser | undefined): Promise<boolean> {
  try {
    await run(command, args, { cwd: '/', timeout: 20_000, ...user });
    return true;
  } catch {
    // Why it fails doesn't matter to the one who asks: he takes another way.
    return false;
  }
}

async function lookUp(name: string): Promise<OsUser | undefined> {
  try {
    const [uid, gid] = await Promise.all([run('id', ['-u', name]), run('id', ['-g', name])]);
    return { uid: Number(uid.stdout), gid: Number(gid.stdout) };
  } catch {
    // `id` ends with 1 for an unknown user.
    return undefined;
  }
}
