import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chownSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { down, mendPostgresLinks, missingPostgresLinks, removeHome, up } from '../../src/dev/index.ts';
import type { RunningServers } from '../../src/dev/index.ts';
import { postgresUser } from '../../src/dev/os-user.ts';
import { postgresPackage, runnableBinaries } from '../../src/dev/postgres-binaries.ts';
import {
  isRoot,
  NO_TEMPORAL,
  processesIn,
  query,
  temporaryFolder,
  temporaryHome,
  upInChild,
  upTold,
} from './homes.ts';

const NOBODY = { uid: 65_534, gid: 65_534 };

test.runIf(isRoot)(
  'as root, a home that only root can enter gets its data elsewhere, and keeps its modes',
  async () => {
    const home = temporaryHome('.perdure', 0o700);
    const { servers, lines } = await upTold({ home, ...NO_TEMPORAL });
    expect(await query(servers.databaseUrl, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
    expect(statSync(join(home, '..')).mode & 0o777).toBe(0o700);
    const outside = readlinkSync(join(home, 'postgres'));
    expect(outside.startsWith(home)).toBe(false);
    expect(lines.join('\n')).toContain(`Postgres data goes to ${outside}`);
    expect(readFileSync(join(outside, 'home'), 'utf8').trim()).toBe(home);
    expect(statSync(join(outside, 'data')).mode & 0o777).toBe(0o700);
    await query(servers.databaseUrl, 'CREATE TABLE kept AS SELECT 1 AS one');

    await down({ home });
    const { servers: again } = await upTold({ home, ...NO_TEMPORAL });
    expect(await query(again.databaseUrl, 'SELECT one FROM kept')).toEqual([{ one: 1 }]);

    // A copy of the home must neither use nor stop what belongs to the original.
    const copy = join(temporaryFolder(0o700), '.perdure');
    cpSync(home, copy, { recursive: true, verbatimSymlinks: true });
    expect((await down({ home: copy })).stopped).toEqual([]);
    try {
      const { servers: copied } = await upTold({ home: copy, ...NO_TEMPORAL });
      expect(copied.postgres.pid).not.toBe(again.postgres.pid);
      await expect(query(copied.databaseUrl, 'SELECT one FROM kept')).rejects.toThrow(/does not exist/);
    } finally {
      await removeHome({ home: copy });
    }
    expect(await query(again.databaseUrl, 'SELECT one FROM kept')).toEqual([{ one: 1 }]);

    await removeHome({ home });
    expect(existsSync(outside)).toBe(false);
    expect(processesIn(outside)).toEqual([]);
  },
);

test.runIf(isRoot)('as root, Postgres from a package that only root can enter runs from a copy', async () => {
  const folder = temporaryFolder(0o700);
  const place = temporaryFolder();
  const { directory } = postgresPackage();
  cpSync(join(directory, 'native'), join(folder, 'native'), { recursive: true, verbatimSymlinks: true });
  const user = await postgresUser(() => undefined);
  const source = { directory: folder, version: '0.0.0' };
  const binaries = await runnableBinaries(
    user,
    () => place,
    () => undefined,
    source,
  );
  expect(binaries.postgres).toBe(join(place, 'postgres-0.0.0', 'native', 'bin', 'postgres'));
  expect(spawnSync(binaries.postgres, ['--version'], { cwd: '/', ...user }).status).toBe(0);
  expect(statSync(folder).mode & 0o777).toBe(0o700);
  const again = await runnableBinaries(
    user,
    () => place,
    () => undefined,
    source,
  );
  expect(again).toEqual(binaries);
});

test.runIf(isRoot)(
  'a normal user starts and stops servers of his own, and root can stop them too',
  async (context) => {
    const home = temporaryHome();
    const folder = join(home, '..');
    const source = fileURLToPath(new URL('../../src/dev/index.ts', import.meta.url));
    const reads = spawnSync(process.execPath, ['-e', `require('fs').readFileSync(process.argv[1])`, source], {
      cwd: '/',
      ...NOBODY,
    });
    if (reads.status !== 0) context.skip('this checkout can be read by root only');
    chownSync(folder, NOBODY.uid, NOBODY.gid);
    const child = upInChild({ home, ...NO_TEMPORAL }, NOBODY);
    const [output, errors] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')]);
    expect(errors).not.toMatch(/Error/);
    const servers = JSON.parse(output) as RunningServers;
    expect(servers.postgres.started).toBe('now');
    expect(statSync(join(home, 'postgres', 'data')).uid).toBe(NOBODY.uid);
    expect(await query(servers.databaseUrl, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
    expect((await down({ home })).stopped).toHaveLength(1);
  },
);

test.runIf(isRoot)(
  "another user's home is refused with a sentence, not with a stack of system errors",
  async (context) => {
    const home = temporaryHome();
    await upTold({ home, ...NO_TEMPORAL });
    const child = upInChild({ home, ...NO_TEMPORAL }, NOBODY);
    const [errors] = await Promise.all([text(child.stderr), once(child, 'exit')]);
    if (errors.includes('ERR_MODULE_NOT_FOUND')) context.skip('this checkout can be read by root only');
    expect(errors).toMatch(/HomeUnusableError: .* can't be (read|written|made)/);
  },
);

test('library links that npm did not lay are found missing, and are laid', () => {
  const directory = temporaryFolder();
  mkdirSync(join(directory, 'native', 'lib'), { recursive: true });
  writeFileSync(join(directory, 'native', 'lib', 'libpq.so.5.18'), '');
  const links = ['libpq.so', 'libpq.so.5'];
  writeFileSync(
    join(directory, 'native', 'pg-symlinks.json'),
    JSON.stringify(
      links.map((name) => ({ source: 'native/lib/libpq.so.5.18', target: `native/lib/${name}` })),
    ),
  );
  const paths = links.map((name) => join(directory, 'native', 'lib', name));
  expect(missingPostgresLinks(directory)).toEqual(paths);
  expect(mendPostgresLinks(directory)).toEqual(paths);
  expect(missingPostgresLinks(directory)).toEqual([]);
  expect(mendPostgresLinks(directory)).toEqual([]);
  for (const path of paths) {
    expect(lstatSync(path).isSymbolicLink()).toBe(true);
    expect(readlinkSync(path)).toBe('libpq.so.5.18');
  }
  expect(missingPostgresLinks()).toEqual([]);
});

test('a folder that up did not make is not removed', async () => {
  const folder = temporaryFolder();
  writeFileSync(join(folder, 'precious'), '');
  await expect(removeHome({ home: folder })).rejects.toMatchObject({ code: 'HOME_UNUSABLE' });
  expect(existsSync(join(folder, 'precious'))).toBe(true);
});

test('a home that cannot be made is refused with a sentence', async () => {
  const file = join(temporaryFolder(), 'file');
  writeFileSync(file, '');
  await expect(up({ home: join(file, '.perdure'), ...NO_TEMPORAL })).rejects.toMatchObject({
    code: 'HOME_UNUSABLE',
  });
});
