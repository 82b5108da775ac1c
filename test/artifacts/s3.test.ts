import { randomBytes } from 'node:crypto';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Artifacts } from '../../src/artifacts/artifacts.ts';
import { parseArtifactPlace } from '../../src/config/artifact-settings.ts';
import { inChild } from './child.ts';
import { openScene, read, type Scene } from './scene.ts';
import { startS3Server, type S3Server } from './s3-server.ts';

let scene: Scene;
let s3: S3Server;
let artifacts: Artifacts;
beforeEach(async () => {
  vi.stubEnv('AWS_ACCESS_KEY_ID', 'test');
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'test');
  scene = await openScene();
  s3 = await startS3Server();
  artifacts = await openBucket('s3://artifacts/some/prefix');
});
afterEach(async () => {
  artifacts.close();
  await s3.close();
  await scene.close();
  vi.unstubAllEnvs();
});

const openBucket = (place: string) =>
  scene.of('default', parseArtifactPlace(place, '/', { endpoint: s3.endpoint }));

/** Keys without the tenant's folder. */
const keys = () => [...s3.objects.keys()].map((key) => key.replace(/tenants\/[^/]+\//, '')).sort();

test('bytes go into a bucket and come back; the same bytes are one object', async () => {
  const made = await artifacts.put('a letter', { mediaType: 'text/plain' });
  expect(await read(artifacts.open(made))).toBe('a letter');
  expect(await artifacts.put(Readable.from(['a ', 'letter']))).toEqual(made);
  expect(keys()).toEqual([`/artifacts/some/prefix/sha256/${made.sha256.slice(0, 2)}/${made.sha256}`]);
});

test('what is larger than 5 MB goes in parts', async () => {
  const bytes = randomBytes(12_000_000);
  const made = await artifacts.put(Readable.from([bytes.subarray(0, 7_000_000), bytes.subarray(7_000_000)]));
  expect(s3.calls.filter((call) => call === 'PUT part')).toHaveLength(3);
  expect(s3.openUploads()).toBe(0);
  expect(made.size).toBe(bytes.length);
  expect((await buffer(await artifacts.open(made))).equals(bytes)).toBe(true);
});

test('256 MB go through a bucket in constant memory', async () => {
  const size = 256 * 1_024 ** 2;
  const ended = await inChild(scene, { large: size, place: 's3://artifacts', endpoint: s3.endpoint });
  expect(ended).toMatchObject({ code: 0, stderr: '' });
  const seen = JSON.parse(ended.stdout) as { read: number; same: boolean; peakMegabytes: number };
  expect(seen).toMatchObject({ read: size, same: true });
  // 180, of which 115 are Node, Postgres' client and the SDK.
  expect(seen.peakMegabytes).toBeLessThan(220);
});

test('an upload in parts whose content fails is called off', async () => {
  async function* broken() {
    yield randomBytes(6_000_000);
    await delay(50);
    yield randomBytes(6_000_000);
    throw new Error('the line broke');
  }
  await expect(artifacts.put(broken())).rejects.toThrow('the line broke');
  expect([s3.openUploads(), keys(), await scene.rows()]).toEqual([0, [], []]);
});

test('a wrong byte, a short object and a lost one are found', async () => {
  const made = await artifacts.put('genuine');
  const [key = ''] = s3.objects.keys();
  const replace = (text: string) => fetch(`${s3.endpoint}${key}`, { method: 'PUT', body: text });
  for (const [text, problem] of [
    ['genuinE', 'sha256'],
    ['gen', 'size'],
  ] as const) {
    await replace(text);
    await expect(read(artifacts.open(made))).rejects.toMatchObject({ details: { problem } });
  }
  await fetch(`${s3.endpoint}${key}`, { method: 'DELETE' });
  await expect(read(artifacts.open(made))).rejects.toMatchObject({ details: { problem: 'missing' } });
  expect(await artifacts.put('genuine')).toEqual(made);
  expect(await read(artifacts.open(made))).toBe('genuine');
});

test('erasing and gc remove objects, over more than one page of a listing', async () => {
  const kept = await artifacts.put('kept', { holder: { kind: 'user', id: 'mira' } });
  const erased = await artifacts.put('erased');
  await artifacts.erase(erased);
  for (let n = 0; n < 5; n += 1) await artifacts.put(`free ${n}`);
  const [tenant] = /tenants\/[^/]+/.exec([...s3.objects.keys()][0] ?? '') ?? [''];
  for (let n = 0; n < 5; n += 1)
    await fetch(`${s3.endpoint}/artifacts/some/prefix/${tenant}/uploads/left-${n}`, {
      method: 'PUT',
      body: 'x',
    });
  // HTTP tells times by the second.
  await delay(1_100);
  expect(await artifacts.gc({ graceMs: 0 })).toMatchObject({ unreferenced: 5, uploads: 5, contents: 0 });
  expect(keys()).toEqual([`/artifacts/some/prefix/sha256/${kept.sha256.slice(0, 2)}/${kept.sha256}`]);
});

test('a bucket that is not there, or may not be used, is told by name', async () => {
  const nowhere = await openBucket('s3://nowhere');
  await expect(nowhere.put('x')).rejects.toMatchObject({
    code: 'ARTIFACT_STORAGE_UNAVAILABLE',
    message: expect.stringMatching(/s3:\/\/nowhere.*NoSuchBucket it is/),
  });
  nowhere.close();
  const made = await artifacts.put('x');
  s3.failWith = { status: 403, code: 'AccessDenied' };
  const attempts = [
    () => artifacts.put('y'),
    () => artifacts.open(made),
    () => artifacts.verify(made, { quarantine: true }),
  ];
  for (const attempt of attempts)
    await expect(attempt()).rejects.toMatchObject({
      code: 'ARTIFACT_STORAGE_UNAVAILABLE',
      message: expect.stringContaining('AccessDenied'),
    });
  s3.failWith = undefined;
  expect(await read(artifacts.open(made))).toBe('x');
  expect((await scene.rows()).map(({ status }) => status)).toEqual(['ready']);
});
