import { afterEach, beforeEach, expect, test } from 'vitest';
import { inChild } from './child.ts';
import { contentPath, openScene, read, type Scene } from './scene.ts';

let scene: Scene;
beforeEach(async () => {
  scene = await openScene();
});
afterEach(() => scene.close());

const NOTHING = { unreferenced: 0, bytes: 0, pending: 0, uploads: 0, contents: 0 };

/** Rows that say ready, each with its bytes. */
async function everyReadyOneCanBeRead(): Promise<void> {
  for (const { artifact_id } of await scene.artifacts.list({ status: 'ready' }))
    expect(await scene.artifacts.verify(artifact_id)).toMatchObject({ ok: true });
}

test.each([
  ['artifact:pending', ['pending'], [], { pending: 1 }],
  ['artifact:uploaded', ['pending'], ['uploads'], { pending: 1 }],
  ['artifact:moved', ['pending'], ['sha256'], { pending: 1, contents: 1 }],
  ['artifact:ready', ['ready'], ['sha256'], { unreferenced: 1, bytes: 9 }],
])(
  'a crash at %s leaves no artifact without its bytes, and gc takes what it left',
  async (point, statuses, kinds, went) => {
    expect(await inChild(scene, { put: 'important', faultPoint: point })).toMatchObject({
      signal: 'SIGKILL',
    });
    expect((await scene.rows()).map(({ status }) => status)).toEqual(statuses);
    expect((await scene.files()).map((path) => path.split('/')[0])).toEqual(kinds);
    await everyReadyOneCanBeRead();

    expect(await scene.artifacts.gc()).toEqual(NOTHING);
    expect(await scene.artifacts.gc({ graceMs: 0, dryRun: true })).toEqual({ ...NOTHING, ...went });
    const made = await scene.artifacts.put('important', { holder: { kind: 'user', id: 'mira' } });
    expect(await read(scene.artifacts.open(made))).toBe('important');
    await scene.artifacts.gc({ graceMs: 0 });
    expect(await scene.rows()).toEqual([{ id: made.artifact_id, status: 'ready' }]);
    expect(await scene.files()).toEqual([contentPath(made)]);
    expect(await read(scene.artifacts.open(made))).toBe('important');
  },
);

test('a crash while the same bytes are found leaves one artifact', async () => {
  const made = await scene.artifacts.put('important', { holder: { kind: 'user', id: 'mira' } });
  expect(await inChild(scene, { put: 'important', faultPoint: 'artifact:ready' })).toMatchObject({
    signal: 'SIGKILL',
  });
  expect((await scene.files()).map((path) => path.split('/')[0])).toEqual(['sha256', 'uploads']);
  expect(await scene.artifacts.gc({ graceMs: 0 })).toEqual({ ...NOTHING, uploads: 1 });
  expect(await read(scene.artifacts.open(made))).toBe('important');
});

test('a crash of gc between row and bytes is made good by the next', async () => {
  await scene.artifacts.put('nobody needs it');
  expect(await inChild(scene, { gc: true, faultPoint: 'artifact:row-gone' })).toMatchObject({
    signal: 'SIGKILL',
  });
  expect([await scene.rows(), (await scene.files()).length]).toEqual([[], 1]);
  expect(await scene.artifacts.gc({ graceMs: 0 })).toEqual({ ...NOTHING, contents: 1 });
  expect(await scene.files()).toEqual([]);
});

test('bytes that were to be erased when the process died go with the next gc, whatever its grace', async () => {
  const made = await scene.artifacts.put('private');
  const ended = await inChild(scene, { erase: made.artifact_id, faultPoint: 'artifact:row-erased' });
  expect(ended).toMatchObject({ signal: 'SIGKILL' });
  await expect(scene.artifacts.open(made)).rejects.toMatchObject({ code: 'ARTIFACT_ERASED' });
  expect(await scene.files()).toEqual([contentPath(made)]);
  expect(await scene.artifacts.gc()).toEqual({ ...NOTHING, contents: 1 });
  expect(await scene.files()).toEqual([]);
});
