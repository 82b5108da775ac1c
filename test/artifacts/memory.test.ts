import { afterAll, beforeAll, expect, test } from 'vitest';
import { inChild } from './child.ts';
import { openScene, type Scene } from './scene.ts';

let scene: Scene;
beforeAll(async () => {
  scene = await openScene();
});
afterAll(() => scene.close());

const GIGABYTE = 1_024 ** 3;

test('1 GB goes in and out with under 200 MB of memory', async () => {
  const { stdout, stderr, code } = await inChild(scene, { large: GIGABYTE });
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  const seen = JSON.parse(stdout) as { read: number; same: boolean; peakMegabytes: number };
  expect(seen).toMatchObject({ read: GIGABYTE, same: true });
  expect(seen.peakMegabytes).toBeLessThan(200);
}, 120_000);
