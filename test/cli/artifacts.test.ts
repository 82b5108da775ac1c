import { appendFileSync, existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { errorOf, makeProject, type TestProject } from './perdure.ts';

let project: TestProject;
beforeAll(async () => {
  project = makeProject('artifacts');
  expect((await project.perdure(['migrate'])).status).toBe(0);
});
afterAll(() => project.remove());

/** A reference as `put --json` prints it. */
type Made = { artifact_id: string; sha256: string };

async function put(file: string, content: string, ...options: string[]): Promise<Made> {
  project.write(file, content);
  const ended = await project.perdure(['artifacts', 'put', file, ...options, '--json']);
  expect(ended).toMatchObject({ status: 0 });
  return ended.json as unknown as Made;
}

/** Where the bytes lie: in the project's home. */
function stored({ sha256 }: Made): string {
  const tenants = join(project.folder, '.perdure/artifacts/tenants');
  return join(tenants, readdirSync(tenants)[0] ?? '', 'sha256', sha256.slice(0, 2), sha256);
}

test('a file goes in, is listed, and comes out again, to a file and to stdout', async () => {
  const made = await put('letter.txt', 'Dear Mira\n', '--media-type', 'text/plain');
  expect(made).toEqual({
    artifact_id: expect.any(String),
    sha256: expect.any(String),
    size: 10,
    media_type: 'text/plain',
    status: 'ready',
  });
  const list = await project.perdure(['artifacts', 'list']);
  expect(list.stdout).toMatch(/^ARTIFACT +STATUS +SIZE +MEDIA TYPE +NAME +MADE +HELD BY\n/);
  expect(list.stdout).toMatch(/ready +10 B +text\/plain +letter.txt .* 1\n/);

  mkdirSync(join(project.folder, 'out'));
  const file = join(project.folder, 'out/copy.txt');
  const got = await project.perdure([
    'artifacts',
    'get',
    made.artifact_id,
    '--output',
    'out/copy.txt',
    '--json',
  ]);
  expect(got.json).toMatchObject({ artifact_id: made.artifact_id, file });
  expect(readFileSync(file, 'utf8')).toBe('Dear Mira\n');
  expect(readdirSync(join(project.folder, 'out'))).toEqual(['copy.txt']);
  expect(await project.perdure(['artifacts', 'get', made.artifact_id])).toMatchObject({
    status: 0,
    stdout: 'Dear Mira\n',
    stderr: '',
  });
});

test('stdin goes in, and what is there already is found', async () => {
  const made = await put('twice.txt', 'twice');
  const again = await project.perdure(['artifacts', 'put', '-', '--json'], { stdin: 'twice' });
  expect(again.json).toEqual(made);
});

test('a file that was changed on disk is told by verify and get, which writes none', async () => {
  const made = await put('report.txt', 'all is well');
  appendFileSync(stored(made), ' or not');
  const verified = await project.perdure(['artifacts', 'verify', '--json']);
  expect(verified.status).toBe(1);
  expect(verified.json).toMatchObject({
    wrong: 1,
    artifacts: expect.arrayContaining([
      expect.objectContaining({ artifact_id: made.artifact_id, ok: false, problem: 'size' }),
    ]),
  });
  const got = await project.perdure(['artifacts', 'get', made.artifact_id, '--output', 'bad.txt', '--json']);
  expect([got.status, errorOf(got)['code']]).toEqual([1, 'ARTIFACT_CORRUPT']);
  expect(readdirSync(project.folder).filter((name) => name.startsWith('bad.txt'))).toEqual([]);

  const quarantined = await project.perdure(['artifacts', 'verify', made.artifact_id, '--quarantine']);
  expect(quarantined).toMatchObject({ status: 1, stdout: expect.stringContaining('(quarantined)') });
  const refused = await project.perdure(['artifacts', 'get', made.artifact_id]);
  expect(refused).toMatchObject({ status: 1, stdout: '', stderr: expect.stringContaining('quarantine') });
  expect((await project.perdure(['artifacts', 'verify'])).status).toBe(0);
});

test('what was put in stays through gc until it is erased', async () => {
  const made = await put('private.txt', 'private');
  const collected = await project.perdure(['artifacts', 'gc', '--grace', '1ms', '--json']);
  expect(collected.json).toEqual({
    dry_run: false,
    unreferenced: 0,
    bytes: 0,
    pending: 0,
    uploads: 0,
    contents: 0,
  });
  expect(existsSync(stored(made))).toBe(true);
  expect(await project.perdure(['artifacts', 'erase', made.artifact_id])).toMatchObject({ status: 0 });
  expect(existsSync(stored(made))).toBe(false);
  const got = await project.perdure(['artifacts', 'get', made.artifact_id, '--output', 'x', '--json']);
  expect([got.status, errorOf(got)['code']]).toEqual([1, 'ARTIFACT_ERASED']);
  const dry = await project.perdure(['artifacts', 'gc', '--dry-run']);
  expect(dry.stdout).toContain('0 artifacts that nothing holds would go');
});

test.each([
  [['get', 'nothing', '--output', 'x'], {}, 1, 'ARTIFACT_UNKNOWN'],
  [['put', 'letter.txt', '--name', '../x'], {}, 2, 'INPUT_INVALID'],
  [['put', 'letter.txt', '--media-type', 'nonsense'], {}, 2, 'INPUT_INVALID'],
  [['list'], { PERDURE_ARTIFACTS: 's3://' }, 1, 'CONFIG_INVALID'],
  [['list'], { PERDURE_ARTIFACTS: 'gs://bucket' }, 1, 'CONFIG_INVALID'],
  [['list'], { PERDURE_S3_ENDPOINT: 'nowhere' }, 1, 'CONFIG_INVALID'],
])('artifacts %j with %j is refused', async (args, env, status, code) => {
  const ended = await project.perdure(['artifacts', ...args, '--json'], { env });
  expect([ended.status, errorOf(ended)['code']]).toEqual([status, code]);
});

test('PERDURE_ARTIFACTS of langgraph.json names a folder beside it, wherever the command is typed', async () => {
  const file = join(project.folder, 'langgraph.json');
  const before = readFileSync(file, 'utf8');
  project.write(
    'langgraph.json',
    JSON.stringify({ ...(JSON.parse(before) as object), env: { PERDURE_ARTIFACTS: 'kept' } }),
  );
  mkdirSync(join(project.folder, 'below'));
  const cwd = join(project.folder, 'below');
  expect((await project.perdure(['artifacts', 'put', '-'], { stdin: 'beside', cwd })).status).toBe(0);
  project.write('langgraph.json', before);
  expect([existsSync(join(project.folder, 'kept/tenants')), readdirSync(cwd)]).toEqual([true, []]);
});
