import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  countRows,
  errorOf,
  GRAPH_NAMES,
  LANGGRAPH_JSON,
  makeProject,
  onDatabase,
  type TestProject,
} from './perdure.ts';

let project: TestProject;
beforeAll(async () => {
  project = makeProject('usage');
  expect((await project.perdure(['migrate'])).status).toBe(0);
});
afterAll(() => project.remove());

describe('help', () => {
  test('is what the command says when nothing is asked of it', async () => {
    const { status, stdout, stderr } = await project.perdure([]);
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    expect(stdout).toContain('perdure run refund-flow --input ticket.json');
    expect(stdout).toContain('3 waiting for a person');
  });

  test.each([
    'up',
    'down',
    'doctor',
    'run',
    'threads',
    'threads migrate',
    'thread',
    'approvals',
    'resume',
    'history',
    'diff',
    'fork',
    'operations',
    'operations resolve',
    'cancel',
    'migrate',
    'restored',
    'artifacts',
    'artifacts list',
    'artifacts put',
    'artifacts get',
    'artifacts verify',
    'artifacts erase',
    'artifacts gc',
  ])('of %s teaches with examples', async (command) => {
    const { status, stdout } = await project.perdure([...command.split(' '), '--help']);
    expect(status).toBe(0);
    expect(stdout).toContain('Examples:');
    expect(stdout).toContain('--json');
  });

  test('the version is that of the package', async () => {
    const { status, stdout } = await project.perdure(['--version']);
    expect({ status, stdout }).toEqual({ status: 0, stdout: expect.stringMatching(/^\d+\.\d+\.\d+\n$/) });
  });
});

describe('a wrong command line', () => {
  test.each([
    [['nonsense'], "unknown command 'nonsense'"],
    [['thred', 'x'], 'Did you mean'],
    [['threads', '--nonsense'], "unknown option '--nonsense'"],
    [['threads', '--status', 'tired'], 'Allowed choices are'],
    [['threads', '--limit', 'many'], 'whole number'],
    [['thread'], 'missing required argument'],
    [['thread', 'a', 'b'], 'too many arguments'],
    [['thread', ''], 'THREAD'],
    [['run', 'double'], '--input'],
    [['run', 'double', '--input', '{}', '--strategy', 'replace'], 'Allowed choices are'],
    [['run', 'double', '--input', '{}', '--thread', 'x'.repeat(300)], '--thread'],
    [['run', 'double', '--input', '{}', '--version', 'a b'], '--version'],
    [['run', 'double', '--input', '{}', '--config', '{"recursion_limit":0}'], '--config: recursion_limit'],
    [['run', 'double', '--input', 'no-such-file.json'], 'there is no such file'],
    [['run', 'double', '--input', '.'], "can't be read"],
    [['resume', 'x', '--value', 'yes'], `'"yes"'`],
    [['resume', 'x', '--interrupt', 'i'], '--value'],
    [['operations', 'resolve', 'x'], '--happened JSON'],
    [['operations', 'resolve', 'x', '--retry', '--happened', '1'], '--happened JSON'],
    [['threads', '--project', 'nowhere'], '--project'],
    [['artifacts'], 'No command was given'],
    [['artifacts', 'list', '--status', 'lost'], 'Allowed choices are'],
    [['artifacts', 'put', 'no-such-file'], 'There is no file'],
    [['artifacts', 'put', '.'], 'is a folder'],
    [['artifacts', 'get', 'x'], '--output FILE'],
    [['artifacts', 'gc', '--grace', 'soon'], 'is no duration'],
  ])('%j ends with 2 and says why', async (args, why) => {
    const ended = await project.perdure([...args, '--json']);
    expect(ended.status).toBe(2);
    expect(errorOf(ended)).toMatchObject({ code: 'USAGE_INVALID', message: expect.stringContaining(why) });
  });

  test('is told to people on stderr, with where to read on', async () => {
    const { status, stdout, stderr } = await project.perdure(['threads', '--limit', 'many']);
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
    expect(stderr).toContain('See perdure threads --help');
  });

  test('invalid JSON in a file and on stdin is told too', async () => {
    project.write('broken.json', '{"n": }');
    const file = await project.perdure(['run', 'double', '--input', 'broken.json']);
    const stdin = await project.perdure(['run', 'double', '--input', '-', '--json'], { stdin: '' });
    expect([file.status, stdin.status]).toEqual([2, 2]);
    expect(file.stderr).toContain('broken.json) is not valid JSON: at position 6');
    expect(errorOf(stdin)).toMatchObject({
      message: expect.stringContaining('(stdin)'),
      details: { position: 0 },
    });
  });
});

describe('what is asked in vain changes nothing', () => {
  test.each([
    ['an unknown graph', ['run', 'nobody', '--input', '{}'], 1, 'GRAPH_UNKNOWN', GRAPH_NAMES.join(', ')],
    [
      'an unknown version',
      ['run', 'double', '--input', '{"n":1}', '--version', '99'],
      1,
      'GRAPH_UNKNOWN',
      '99',
    ],
    ['input that its schema refuses', ['run', 'ask', '--input', '{"name":5}'], 2, 'USAGE_INVALID', 'name'],
    [
      'a reserved setting',
      ['run', 'double', '--input', '{}', '--config', '{"configurable":{"thread_id":"x"}}', '--no-worker'],
      2,
      'INPUT_INVALID',
      'thread_id',
    ],
    ['an unknown thread', ['thread', 'nobody'], 1, 'THREAD_UNKNOWN', 'nobody'],
    ['the history of an unknown thread', ['history', 'nobody'], 1, 'THREAD_UNKNOWN', 'nobody'],
    ['approvals of an unknown thread', ['approvals', '--thread', 'nobody'], 1, 'THREAD_UNKNOWN', 'nobody'],
    ['operations of an unknown thread', ['operations', 'nobody'], 1, 'THREAD_UNKNOWN', 'nobody'],
    ['an answer to an unknown thread', ['resume', 'nobody', '--value', '1'], 1, 'THREAD_UNKNOWN', 'nobody'],
    ['the end of an unknown thread', ['cancel', 'nobody'], 1, 'THREAD_UNKNOWN', 'nobody'],
    [
      'an unknown operation',
      ['operations', 'resolve', 'nothing', '--retry'],
      1,
      'OPERATION_UNKNOWN_ID',
      'nothing',
    ],
  ])('%s', async (_, args, status, code, says) => {
    const before = await countRows(project);
    const ended = await project.perdure([...args, '--json']);
    expect(ended.status).toBe(status);
    expect(errorOf(ended)).toMatchObject({ code, message: expect.stringContaining(says) });
    expect({ ...(await countRows(project)), graph_versions: 0 }).toEqual({ ...before, graph_versions: 0 });
  });

  test.each([
    ['no JSON', '{', 'not valid JSON'],
    ['no graphs', '{}', 'graphs'],
    ['a missing file', '{"graphs":{"x":"./nowhere.ts:x"}}', 'nowhere.ts'],
    ['a broken env', '{"graphs":{},"env":".env.nowhere"}', '.env.nowhere'],
  ])('a langgraph.json with %s', async (_, content, says) => {
    project.write('langgraph.json', content);
    const ended = await project.perdure(['run', 'double', '--input', '{"n":1}', '--json']);
    project.write('langgraph.json', LANGGRAPH_JSON);
    expect(ended.status).toBe(1);
    expect(errorOf(ended)).toMatchObject({ code: 'CONFIG_INVALID', message: expect.stringContaining(says) });
  });

  test('a graph that does not load', async () => {
    project.write('double.mjs', 'export default 5;');
    const ended = await project.perdure(['run', 'double', '--input', '{"n":1}', '--json']);
    expect(ended.status).toBe(1);
    expect(errorOf(ended)).toMatchObject({
      code: 'GRAPH_LOAD_FAILED',
      message: expect.stringContaining('double.mjs'),
    });
  });

  test.each([
    [
      'Postgres',
      { DATABASE_URL: 'postgres://postgres:secret@127.0.0.1:9/none' },
      'STORAGE_UNAVAILABLE',
      'DATABASE_URL',
    ],
    ['Temporal', { TEMPORAL_ADDRESS: '127.0.0.1:9' }, 'TEMPORAL_UNAVAILABLE', 'TEMPORAL_ADDRESS'],
  ])('an unreachable %s', async (_, env, code, says) => {
    const before = await countRows(project);
    const ended = await project.perdure(['run', 'ask', '--input', '{"name":"Mira"}', '--json'], { env });
    expect(ended.status).toBe(1);
    expect(errorOf(ended)).toMatchObject({ code, message: expect.stringContaining(says) });
    expect(ended.stdout + ended.stderr).not.toContain('secret');
    expect(await countRows(project)).toEqual(before);
  });

  test('a wrong database password', async () => {
    const role = `r_${Math.random().toString(36).slice(2, 8)}`;
    await onDatabase((client) => client.query(`CREATE ROLE ${role} LOGIN PASSWORD 'right'`));
    try {
      const url = new URL(project.env['DATABASE_URL'] ?? '');
      url.username = role;
      url.password = 'wrong';
      const ended = await project.perdure(['threads', '--json'], { env: { DATABASE_URL: url.href } });
      expect(ended.status).toBe(1);
      expect(errorOf(ended)).toMatchObject({
        code: 'STORAGE_UNAVAILABLE',
        message: expect.stringContaining('password'),
      });
    } finally {
      await onDatabase((client) => client.query(`DROP ROLE ${role}`));
    }
  });

  test('a malformed variable is named', async () => {
    const ended = await project.perdure(['threads', '--json'], { env: { TEMPORAL_ADDRESS: 'somewhere' } });
    expect(ended.status).toBe(1);
    expect(errorOf(ended)).toMatchObject({
      code: 'CONFIG_INVALID',
      message: expect.stringContaining('TEMPORAL_ADDRESS'),
    });
  });

  test('a schema that was never set up', async () => {
    const ended = await project.perdure(['threads', '--json'], { env: { PERDURE_SCHEMA: 'cli_never_made' } });
    expect(ended.status).toBe(1);
    expect(errorOf(ended)).toMatchObject({
      code: 'SCHEMA_NOT_MIGRATED',
      message: expect.stringContaining('perdure migrate'),
    });
  });

  test('looking where nothing runs says how to start, and starts nothing', async () => {
    const env = { DATABASE_URL: '', TEMPORAL_ADDRESS: '' };
    const ended = await project.perdure(['threads', '--json'], { env });
    expect(ended.status).toBe(1);
    expect(errorOf(ended)).toMatchObject({
      code: 'NOT_RUNNING',
      message: expect.stringContaining('perdure up'),
    });
  });
});

test('a folder below finds the same project and the same home', async () => {
  mkdirSync(join(project.folder, 'below/deep'), { recursive: true });
  const { json } = await project.perdure(['doctor', '--json'], { cwd: join(project.folder, 'below/deep') });
  expect(json).toMatchObject({
    project: join(project.folder, 'langgraph.json'),
    home: join(project.folder, '.perdure'),
  });
});
