import { createHash } from 'node:crypto';
import {
  appendFileSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { fromArtifactReference } from '../../src/contracts/artifacts.ts';
import { contentPath, openScene, read, type Scene } from './scene.ts';

let scene: Scene;
beforeAll(async () => {
  scene = await openScene();
});
afterAll(() => scene.close());

const hex = (text: string) => createHash('sha256').update(text).digest('hex');

/** Where the file of an artifact's bytes is. */
function fileOf(artifact: { sha256: string }): string {
  const [tenant = ''] = readdirSync(join(scene.folder, 'tenants'));
  return join(scene.folder, 'tenants', tenant, contentPath(artifact));
}

/** Another byte in the middle of the file. */
function turnByte(file: string): void {
  const bytes = readFileSync(file);
  const middle = bytes.length >> 1;
  bytes.writeUInt8(bytes.readUInt8(middle) ^ 1, middle);
  writeFileSync(file, bytes);
}

describe('putting in and reading', () => {
  test('bytes come back as they went in, and state holds five things', async () => {
    const made = await scene.artifacts.put('a letter', {
      mediaType: 'text/plain; charset=utf-8',
      name: 'letter.txt',
      threadId: 'mira',
    });
    expect(made).toEqual({
      artifact_id: expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-7/),
      sha256: hex('a letter'),
      size: 8,
      media_type: 'text/plain; charset=utf-8',
      status: 'ready',
    });
    expect(fromArtifactReference(JSON.parse(JSON.stringify(made)))).toEqual(made);
    expect(await read(scene.artifacts.open(made))).toBe('a letter');
    expect(await read(scene.artifacts.open(made.artifact_id))).toBe('a letter');
    expect(await scene.artifacts.view(made)).toMatchObject({
      name: 'letter.txt',
      thread_id: 'mira',
      references: 0,
    });
    expect(await scene.files()).toContain(contentPath(made));
    expect(statSync(fileOf(made)).mode & 0o077).toBe(0);
  });

  test.each([
    ['nothing at all', '', ''],
    ['a buffer', Buffer.from([1, 0, 255]), '\u0001\u0000\ufffd'],
    ['a stream of Node', Readable.from(['one, ', 'two']), 'one, two'],
    ['a stream of the web', new Response('from the web').body, 'from the web'],
    ['an iterable of bytes', [Buffer.from('a'), Buffer.alloc(0), Buffer.from('bc')], 'abc'],
  ])('%s', async (_, content, text) => {
    if (content === null) throw new Error('no body');
    const made = await scene.artifacts.put(content);
    expect(made.media_type).toBe('application/octet-stream');
    expect(await read(scene.artifacts.open(made))).toBe(text);
  });

  test('a content that fails leaves nothing, and its own error is told', async () => {
    const before = [await scene.rows(), await scene.files()];
    async function* broken() {
      yield Buffer.from('some');
      await Promise.resolve();
      throw new Error('the line broke');
    }
    await expect(scene.artifacts.put(broken())).rejects.toThrow('the line broke');
    await expect(scene.artifacts.put([1, 2] as never)).rejects.toMatchObject({ code: 'INPUT_INVALID' });
    expect([await scene.rows(), await scene.files()]).toEqual(before);
  });

  test('a folder that cannot be written is told by name, and leaves no row', async () => {
    writeFileSync(join(scene.folder, 'a-file'), '');
    const folder = join(scene.folder, 'a-file/below');
    const before = await scene.rows();
    const artifacts = await scene.of('default', { kind: 'folder', folder });
    await expect(artifacts.put('x')).rejects.toMatchObject({
      code: 'ARTIFACT_STORAGE_UNAVAILABLE',
      message: expect.stringContaining(folder),
    });
    expect(await scene.rows()).toEqual(before);
  });

  test('what does not exist is unknown, whatever it is called', async () => {
    for (const id of ['', '../../etc/passwd', '01890000-0000-7000-8000-000000000000'])
      await expect(scene.artifacts.open(id)).rejects.toMatchObject({ code: 'ARTIFACT_UNKNOWN' });
  });
});

describe('the same bytes', () => {
  test('are one artifact within a tenant, and another in the next', async () => {
    const one = await scene.artifacts.put('shared', { name: 'one' });
    const two = await scene.artifacts.put('shared', { name: 'two', mediaType: 'text/plain' });
    expect(two).toEqual(one);
    expect(await scene.artifacts.view(two)).toMatchObject({ name: 'one' });
    const other = await scene.of('other');
    const three = await other.put('shared');
    expect(three.artifact_id).not.toBe(one.artifact_id);
    await expect(other.open(one)).rejects.toMatchObject({ code: 'ARTIFACT_UNKNOWN' });
    expect((await scene.files()).filter((path) => path === contentPath(one))).toHaveLength(2);
  });

  test('put in by many at once end in one artifact, and leave no upload', async () => {
    const text = 'x'.repeat(300_000);
    const made = await Promise.all(
      Array.from({ length: 12 }, () => scene.artifacts.put(Readable.from([text]))),
    );
    expect(new Set(made.map(({ artifact_id }) => artifact_id)).size).toBe(1);
    const files = await scene.files();
    expect(files.filter((path) => path.endsWith(hex(text)))).toHaveLength(1);
    expect(files.filter((path) => path.startsWith('uploads/'))).toEqual([]);
    expect((await scene.rows()).filter(({ status }) => status === 'pending')).toEqual([]);
  });

  test('put in again bring back a file that was lost', async () => {
    const made = await scene.artifacts.put('lost and found');
    rmSync(fileOf(made));
    await expect(scene.artifacts.open(made)).rejects.toMatchObject({
      code: 'ARTIFACT_CORRUPT',
      details: { problem: 'missing' },
    });
    expect(await scene.artifacts.put('lost and found')).toEqual(made);
    expect(await read(scene.artifacts.open(made))).toBe('lost and found');
  });
});

describe('on disk', () => {
  test.each([
    ['a wrong byte', 'sha256', turnByte],
    ['a file that was cut', 'size', (file: string) => truncateSync(file, 100_000)],
    ['an empty file', 'size', (file: string) => truncateSync(file, 0)],
    ['bytes at the end', 'size', (file: string) => appendFileSync(file, 'more')],
  ])('%s is found on read, before all bytes are out', async (what, problem, harm) => {
    const text = 'y'.repeat(200_000) + what;
    const made = await scene.artifacts.put(text);
    harm(fileOf(made));
    let seen = 0;
    const reading = async () => {
      for await (const piece of await scene.artifacts.open(made)) seen += (piece as Buffer).length;
    };
    await expect(reading()).rejects.toMatchObject({
      code: 'ARTIFACT_CORRUPT',
      details: { artifact_id: made.artifact_id, problem },
    });
    expect(seen).toBeLessThan(text.length);
    expect(await scene.artifacts.verify(made)).toMatchObject({ ok: false, problem, status: 'ready' });
    expect(await scene.artifacts.verify(made, { quarantine: true })).toMatchObject({ status: 'quarantined' });
    await expect(scene.artifacts.open(made)).rejects.toMatchObject({ code: 'ARTIFACT_QUARANTINED' });
    expect(await scene.artifacts.verify(made)).toMatchObject({ ok: false });
    // The right bytes put in again are another artifact, which can be read.
    const again = await scene.artifacts.put(text);
    expect(again.artifact_id).not.toBe(made.artifact_id);
    expect(await read(scene.artifacts.open(again))).toBe(text);
  });

  test('a file that is missing is told, and not put in quarantine: the disk may be away', async () => {
    const made = await scene.artifacts.put('away');
    rmSync(fileOf(made));
    expect(await scene.artifacts.verify(made, { quarantine: true })).toMatchObject({
      ok: false,
      problem: 'missing',
      status: 'ready',
    });
  });

  test('a reference that does not fit what is on record is refused', async () => {
    const made = await scene.artifacts.put('genuine');
    await expect(scene.artifacts.open({ ...made, sha256: hex('forged') })).rejects.toMatchObject({
      code: 'ARTIFACT_CORRUPT',
      details: { problem: 'reference' },
    });
  });

  test('a reader that stops early leaves no file open', async () => {
    const made = await scene.artifacts.put('z'.repeat(2_000_000));
    const open = () => readdirSync('/proc/self/fd').length;
    const before = open();
    for (let n = 0; n < 20; n += 1) {
      const stream = await scene.artifacts.open(made);
      for await (const _ of stream) break;
    }
    expect(open()).toBeLessThan(before + 10);
  });
});

describe('erased', () => {
  test('bytes are gone, the row stays without its name, and the same bytes make a new artifact', async () => {
    const made = await scene.artifacts.put('private', {
      name: 'mira.txt',
      holder: { kind: 'thread', id: 'mira' },
    });
    const erased = await scene.artifacts.erase(made);
    expect(erased).toMatchObject({ status: 'erased', name: null, sha256: made.sha256 });
    expect(await scene.files()).not.toContain(contentPath(made));
    await expect(scene.artifacts.open(made)).rejects.toMatchObject({ code: 'ARTIFACT_ERASED' });
    await expect(scene.artifacts.verify(made)).rejects.toMatchObject({ code: 'ARTIFACT_ERASED' });
    await expect(scene.artifacts.quarantine(made)).rejects.toMatchObject({ code: 'ARTIFACT_ERASED' });
    const again = await scene.artifacts.put('private');
    expect(again.artifact_id).not.toBe(made.artifact_id);
    // And erasing the first once more is no matter of the second.
    expect(await scene.artifacts.erase(made)).toEqual(erased);
    expect(await read(scene.artifacts.open(again))).toBe('private');
  });

  test('takes along what has the same bytes in quarantine', async () => {
    const one = await scene.artifacts.put('twice');
    await scene.artifacts.quarantine(one);
    const two = await scene.artifacts.put('twice');
    expect(await scene.artifacts.erase(two)).toMatchObject({ status: 'erased' });
    expect(await scene.artifacts.view(one)).toMatchObject({ status: 'erased' });
    expect(await scene.files()).not.toContain(contentPath(one));
  });

  test('an upload under way ends with an error and leaves nothing', async () => {
    async function* slow() {
      yield Buffer.from('half');
      const [upload] = await scene.artifacts.list({ status: 'pending' });
      await expect(scene.artifacts.open(upload?.artifact_id ?? '')).rejects.toMatchObject({
        code: 'ARTIFACT_PENDING',
      });
      await scene.artifacts.erase(upload?.artifact_id ?? '');
      yield Buffer.from('whole');
    }
    await expect(scene.artifacts.put(slow())).rejects.toThrow(/erased, or taken by gc/);
    expect((await scene.files()).filter((path) => path.startsWith('uploads/'))).toEqual([]);
    expect(await scene.files()).not.toContain(contentPath({ sha256: hex('halfwhole') }));
  });
});

describe('hostile words', () => {
  test.each([
    ['a path for a name', { name: '../../../etc/cron.d/x' }],
    ['a parent for a name', { name: '..' }],
    ['a path of Windows', { name: '..\\x' }],
    ['a name with NUL', { name: 'a\u0000b' }],
    ['a name that steers a terminal', { name: '\u001b[2Jx' }],
    ['a name with half a surrogate pair', { name: '\ud800' }],
    ['a long name', { name: 'x'.repeat(256) }],
    ['a path for a media type', { mediaType: '../../x' }],
    ['a header in a media type', { mediaType: 'text/plain\r\nX-Evil: 1' }],
    ['a media type with a parameter that never ends', { mediaType: 'text/plain; a="b' }],
    ['a long media type', { mediaType: `text/${'x'.repeat(300)}` }],
    ['no media type', { mediaType: '' }],
    ['a run that is none', { runId: 'x' }],
    ['a holder of no kind', { holder: { kind: '', id: 'x' } }],
  ])('%s is refused, and nothing is stored', async (_, options) => {
    const before = [await scene.rows(), await scene.files()];
    await expect(scene.artifacts.put('x', options)).rejects.toMatchObject({ code: 'INPUT_INVALID' });
    expect([await scene.rows(), await scene.files()]).toEqual(before);
  });

  test('a tenant may be called anything, and stays in a folder of its own', async () => {
    const tenants = [
      '..',
      '../default',
      'a/b',
      'A',
      'a',
      '.',
      'Übung 🦊',
      'x'.repeat(100),
      "'; DROP TABLE x",
    ];
    for (const tenant of tenants) {
      const artifacts = await scene.of(tenant);
      const made = await artifacts.put('everybody has it');
      expect(await read((await scene.of(tenant)).open(made))).toBe('everybody has it');
      expect(await artifacts.list()).toHaveLength(1);
    }
    expect(readdirSync(scene.folder).sort()).toEqual(['a-file', 'tenants']);
    const folders = readdirSync(join(scene.folder, 'tenants'));
    expect(folders.length).toBeGreaterThanOrEqual(tenants.length);
    for (const folder of folders) expect(folder).toMatch(/^[a-z0-9-]{16,60}$/);
  });

  test.each([
    'image/svg+xml',
    'application/vnd.ms-excel.sheet.macroEnabled.12',
    'text/html; charset="utf-8"',
  ])('%s is a media type', async (mediaType) => {
    expect(await scene.artifacts.put(mediaType, { mediaType })).toMatchObject({ media_type: mediaType });
  });
});
