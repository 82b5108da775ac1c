import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Readable } from 'node:stream';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { addArtifactReference } from '../../src/artifacts/references.ts';
import { until } from '../support/eventually.ts';
import { contentPath, openScene, read, type Scene } from './scene.ts';

let scene: Scene;
beforeEach(async () => {
  scene = await openScene();
});
afterEach(() => scene.close());

const NOTHING = { unreferenced: 0, bytes: 0, pending: 0, uploads: 0, contents: 0 };
const THREAD = { kind: 'thread', id: 'mira' };
const OTHER = { kind: 'thread', id: 'jonas' };

test('what nothing references goes once it is older than the grace; a dry run only says so', async () => {
  const held = await scene.artifacts.put('held', { holder: THREAD });
  const quarantined = await scene.artifacts.put('quarantined');
  await scene.artifacts.quarantine(quarantined);
  const free = await scene.artifacts.put('free');
  expect(await scene.artifacts.gc()).toEqual(NOTHING);
  const went = { ...NOTHING, unreferenced: 1, bytes: 4 };
  expect(await scene.artifacts.gc({ graceMs: 0, dryRun: true })).toEqual(went);
  expect(await read(scene.artifacts.open(free))).toBe('free');
  expect(await scene.artifacts.gc({ graceMs: 0 })).toEqual(went);
  await expect(scene.artifacts.open(free)).rejects.toMatchObject({ code: 'ARTIFACT_UNKNOWN' });
  expect(await scene.files()).toEqual([contentPath(held), contentPath(quarantined)].sort());
});

test('an artifact goes when its last holder lets it go, and its grace begins there', async () => {
  const made = await scene.artifacts.put('held', { holder: THREAD });
  await scene.artifacts.addReference(made, OTHER);
  await scene.artifacts.addReference(made, OTHER);
  expect(await scene.artifacts.view(made)).toMatchObject({ references: 2 });
  await age();
  expect(await scene.artifacts.removeReferences(THREAD)).toBe(1);
  expect(await scene.artifacts.gc({ graceMs: 0 })).toEqual(NOTHING);
  expect(await scene.artifacts.removeReferences(OTHER, made)).toBe(1);
  expect(await scene.artifacts.removeReferences(OTHER, made)).toBe(0);
  expect(await scene.artifacts.gc({ graceMs: 60_000 })).toEqual(NOTHING);
  expect(await scene.artifacts.gc({ graceMs: 0 })).toMatchObject({ unreferenced: 1 });
});

test('putting the same bytes in again begins the grace anew', async () => {
  await scene.artifacts.put('again');
  await age();
  await scene.artifacts.put('again');
  expect(await scene.artifacts.gc({ graceMs: 60_000 })).toEqual(NOTHING);
});

test('only a ready artifact can be referenced', async () => {
  const erased = await scene.artifacts.put('x');
  await scene.artifacts.erase(erased);
  await expect(scene.artifacts.addReference(erased, THREAD)).rejects.toMatchObject({
    code: 'ARTIFACT_ERASED',
  });
  await expect(
    scene.artifacts.addReference('01890000-0000-7000-8000-000000000000', THREAD),
  ).rejects.toMatchObject({ code: 'ARTIFACT_UNKNOWN' });
});

test('objects of nobody go once they are old; what is not ours stays', async () => {
  const made = await scene.artifacts.put('kept', { holder: THREAD });
  const hash = 'ab'.repeat(32);
  write(`uploads/01890000-0000-7000-8000-000000000000`);
  write(`sha256/ab/${hash}`);
  write('sha256/notes.txt');
  expect(await scene.artifacts.gc()).toEqual(NOTHING);
  await delay(5);
  expect(await scene.artifacts.gc({ graceMs: 0 })).toEqual({ ...NOTHING, uploads: 1, contents: 1 });
  expect(await scene.files()).toEqual([contentPath(made), 'sha256/notes.txt']);
});

test('other tenants and other installations that share the folder are left alone', async () => {
  const neighbour = await openScene();
  try {
    const theirs = await neighbour.of('default', { kind: 'folder', folder: scene.folder });
    const other = await scene.of('other');
    const [one, two] = [await theirs.put('shared'), await other.put('shared')];
    await scene.artifacts.put('shared');
    await delay(5);
    expect(await scene.artifacts.gc({ graceMs: 0 })).toEqual({ ...NOTHING, unreferenced: 1, bytes: 6 });
    expect([await read(theirs.open(one)), await read(other.open(two))]).toEqual(['shared', 'shared']);
  } finally {
    await neighbour.close();
  }
});

test('gc waits for a reference that is being made, and leaves the artifact', async () => {
  const made = await scene.artifacts.put('wanted');
  let collecting: Promise<unknown> = Promise.resolve();
  await scene.database.transaction(async (client) => {
    await addArtifactReference(client, scene.database, 'default', made.artifact_id, THREAD);
    collecting = scene.artifacts.gc({ graceMs: 0 });
    await until(async () => (await waitingStatements()) > 0);
  });
  expect(await collecting).toEqual(NOTHING);
  expect(await read(scene.artifacts.open(made))).toBe('wanted');
});

test('a reference that comes while gc takes the artifact is told that there is none', async () => {
  const made = await scene.artifacts.put('too late');
  const results = await Promise.allSettled([
    scene.artifacts.gc({ graceMs: 0 }),
    scene.artifacts.addReference(made, THREAD),
  ]);
  const [collected, referenced] = results;
  const there = (await scene.rows()).length === 1;
  expect(collected).toMatchObject({ value: { unreferenced: there ? 0 : 1 } });
  expect(referenced.status).toBe(there ? 'fulfilled' : 'rejected');
  if (!there) expect(referenced).toMatchObject({ reason: { code: 'ARTIFACT_UNKNOWN' } });
});

test('beside uploads, dedupe and references gc takes only what nothing needs', async () => {
  const ended = new AbortController();
  const collector = (async () => {
    for (let round = 0; !ended.signal.aborted; round += 1) await scene.artifacts.gc({ graceMs: round % 2 });
  })();
  const held: { artifact_id: string }[] = [];
  // Whether an upload gets through is up to gc, which gives it no grace here; that what got through stays is not.
  const writer = async (n: number) => {
    for (let round = 0; round < 12; round += 1) {
      const holder = { kind: 'writer', id: `${n}` };
      const put = scene.artifacts.put(Readable.from([`text ${round % 3}`]), { holder });
      const made = await put.catch((error: unknown) => {
        expect(error).toMatchObject({ code: 'ARTIFACT_STORAGE_UNAVAILABLE' });
      });
      if (!made) continue;
      expect(await read(scene.artifacts.open(made))).toBe(`text ${round % 3}`);
      if (round % 2 === 0) await scene.artifacts.removeReferences(holder);
      else held.push(made);
      if (round % 2 === 1) expect(await scene.artifacts.view(made)).toMatchObject({ status: 'ready' });
    }
  };
  await Promise.all([writer(1), writer(2), writer(3)]).finally(() => ended.abort());
  await collector;
  for (const { artifact_id, status } of await scene.artifacts.list()) {
    if (status === 'ready') expect(await scene.artifacts.verify(artifact_id)).toMatchObject({ ok: true });
  }
  for (const n of [1, 2, 3]) await scene.artifacts.removeReferences({ kind: 'writer', id: `${n}` });
  await delay(5);
  await scene.artifacts.gc({ graceMs: 0 });
  expect([await scene.rows(), await scene.files()]).toEqual([[], []]);
});

/** As if all was put in two days ago. */
async function age(): Promise<void> {
  await scene.database.query(
    `UPDATE ${scene.database.table('artifacts')} SET created_at = now() - interval '2 days', touched_at = now() - interval '2 days'`,
  );
}

/** A file in the tenant's folder, beside those that we made. */
function write(path: string): void {
  const [tenant = ''] = readdirSync(join(scene.folder, 'tenants'));
  const file = join(scene.folder, 'tenants', tenant, path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, 'left behind');
}

async function waitingStatements(): Promise<number> {
  const { rows } = await scene.database.query<{ count: number }>(
    `SELECT count(*)::int AS count FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%FOR UPDATE%' AND query LIKE $1`,
    [`%${scene.database.schema}%`],
  );
  return rows[0]?.count ?? 0;
}
