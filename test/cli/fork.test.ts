import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { historyGraph } from '../../src/cli/history-graph.ts';
import { errorOf, makeProject, type TestProject } from './perdure.ts';

const LIMIT = 120_000;

type Entry = { checkpoint_id: string; parent_checkpoint_id: string | null; pending_tasks: string[] };

let project: TestProject;
let old: Entry[];
beforeAll(async () => {
  project = makeProject('fork');
  const asked = await project.perdure(['run', 'ask', '--input', '{"name":"Mira"}', '--thread', 'mira']);
  expect(asked.status).toBe(3);
  expect((await project.perdure(['resume', 'mira', '--value', '"yes"'])).status).toBe(0);
  old = await history();
}, LIMIT);
afterAll(() => project.remove(), LIMIT);

async function history(): Promise<Entry[]> {
  const { json } = await project.perdure(['history', 'mira', '--json']);
  return json['checkpoints'] as Entry[];
}
const before = (node: string) =>
  old.find((entry) => entry.pending_tasks.includes(node))?.checkpoint_id ?? 'none';

describe('fork', { timeout: LIMIT }, () => {
  test('goes on from a checkpoint, and asks again', async () => {
    const forked = await project.perdure(['fork', 'mira', '--at', before('approve'), '--json']);
    expect(forked.status).toBe(3);
    expect(forked.json).toMatchObject({
      thread_id: 'mira',
      status: 'interrupted',
      interrupts: [{ node: 'approve', value: { question: 'send hello Mira' } }],
    });
    const stale = await project.perdure(['resume', 'mira', '--approve', '--digest', '0'.repeat(8), '--json']);
    expect({ status: stale.status, code: errorOf(stale).code }).toEqual({
      status: 1,
      code: 'APPROVAL_STALE',
    });
    const answered = await project.perdure(['resume', 'mira', '--reject', '--json']);
    expect(answered.json).toMatchObject({ status: 'success', values: { answer: false } });
  });

  test('changes the state, in the name of a node, and shows the question', async () => {
    const forked = await project.perdure([
      'fork',
      'mira',
      '--at',
      before('write'),
      '--set',
      '{"greeting":"good morning"}',
      '--as-node',
      'write',
      '--effects',
      'dry',
    ]);
    expect(forked.status).toBe(3);
    expect(forked.stdout).toContain('send good morning');
    expect(forked.stdout).toContain('Answer: perdure resume mira --interrupt');
  });

  test('can be left to itself', async () => {
    const forked = await project.perdure(['fork', 'mira', '--at', before('write'), '--detach', '--json']);
    expect({ status: forked.status, run: forked.json['status'] }).toEqual({ status: 0, run: 'pending' });
  });

  test.each([
    [['--at', 'nowhere'], 1, 'CHECKPOINT_UNKNOWN', 'perdure history mira'],
    [['--at', 'x', '--as-node', 'write'], 2, 'USAGE_INVALID', '--set'],
    [['--at', 'x', '--set', '{oops'], 2, 'USAGE_INVALID', '--set'],
    [['--at', 'x', '--config', '{"recursion_limit":0}'], 2, 'USAGE_INVALID', '--config'],
    [['--at', 'x', '--set', 'null.json'], 2, 'USAGE_INVALID', '--set'],
  ])('with %j is refused', async (options, status, code, hint) => {
    project.write('null.json', 'null');
    const refused = await project.perdure(['fork', 'mira', ...options, '--json']);
    expect(refused.status).toBe(status);
    expect(errorOf(refused)).toMatchObject({ code, message: expect.stringContaining(hint) });
  });
});

describe('copy', { timeout: LIMIT }, () => {
  test('makes a thread that waits as the original does, or stands at a checkpoint', async () => {
    const fresh = ['run', 'ask', '--input', '{"name":"Ana"}', '--thread', 'ana'];
    expect((await project.perdure(fresh)).status).toBe(3);
    const copied = await project.perdure(['copy', 'ana', '--as', 'ana 2']);
    expect(copied.status).toBe(0);
    expect(copied.stdout).toMatch(/^thread ana 2: interrupted, copied from ana at \S+\n/);
    expect(copied.stdout).toMatch(/Answer: perdure resume 'ana 2' /);
    const shown = await project.perdure(['thread', 'ana 2']);
    expect(shown.stdout).toMatch(/\ncopied from ana at \S+\neffects: recorded\nnext: approve\n/);
    const older = await project.perdure(['copy', 'mira', '--at', before('write'), '--as', 'm3', '--json']);
    expect(older.json).toMatchObject({ thread_id: 'm3', status: 'interrupted', interrupts: [] });
    const twice = await project.perdure(['copy', 'mira', '--as', 'm3', '--json']);
    expect({ status: twice.status, code: errorOf(twice).code }).toEqual({ status: 1, code: 'THREAD_EXISTS' });
  });
});

describe('history', { timeout: LIMIT }, () => {
  test('draws forks as a tree and marks the head', async () => {
    const entries = await history();
    const { stdout } = await project.perdure(['history', 'mira']);
    const [heading, first, ...rest] = stdout.split('\n');
    expect(heading).toMatch(/^\s+STEP\s+CHECKPOINT/);
    expect(first).toMatch(/^\*\s.*\(head\)/);
    expect(rest.filter((line) => line.includes('(head)'))).toEqual([]);
    expect(stdout).toContain('|/');
    expect(stdout.match(/\*/g)).toHaveLength(entries.length);
    // What was there is there still.
    expect(entries.slice(-old.length)).toEqual(old);
  });

  test('gives the head and the parents as JSON', async () => {
    const { json } = await project.perdure(['history', 'mira', '--limit', '1', '--json']);
    expect(json).toMatchObject({
      thread_id: 'mira',
      checkpoints: [{ checkpoint_id: json['head_checkpoint_id'], parent_checkpoint_id: expect.any(String) }],
    });
  });

  test('lists those of subgraphs when asked, with the way to each', async () => {
    const { stdout } = await project.perdure(['history', 'mira', '--subgraphs', '--limit', '3']);
    expect(stdout.split('\n')[0]).toMatch(/NEXT\s+SUBGRAPH$/);
  });

  const drawn = (...pairs: [string, string | null][]) =>
    historyGraph(
      pairs.map(([checkpoint_id, parent_checkpoint_id]) => ({ checkpoint_id, parent_checkpoint_id })),
    )
      .flat()
      .join('\n');

  test.each([
    ['nothing', [], []],
    [
      'a line',
      [
        ['b', 'a'],
        ['a', null],
      ],
      ['*', '*'],
    ],
    [
      'a fork',
      [
        ['d', 'c'],
        ['c', 'a'],
        ['b', 'a'],
        ['a', null],
      ],
      ['*', '*', '| *', '|/', '*'],
    ],
    [
      'three branches of one checkpoint',
      [
        ['d', 'a'],
        ['c', 'a'],
        ['b', 'a'],
        ['a', null],
      ],
      ['*', '| *', '| | *', '|_|/', '|/', '*'],
    ],
    [
      'a fork of a fork',
      [
        ['e', 'c'],
        ['d', 'c'],
        ['c', 'a'],
        ['b', 'a'],
        ['a', null],
      ],
      ['*', '| *', '|/', '*', '| *', '|/', '*'],
    ],
    [
      'a list that is cut',
      [
        ['d', 'a'],
        ['c', 'b'],
      ],
      ['*', '| *'],
    ],
  ] as [string, [string, string | null][], string[]][])('draws %s', (_, pairs, lines) => {
    expect(drawn(...pairs)).toBe(lines.join('\n'));
  });
});

describe('diff', { timeout: LIMIT }, () => {
  test('shows what was added, removed and changed', async () => {
    const [a, b] = [before('write'), old[0]?.checkpoint_id ?? ''];
    const { status, json } = await project.perdure(['diff', 'mira', a, b, '--json']);
    expect(status).toBe(0);
    expect(json).toEqual({
      a,
      b,
      changes: [
        { path: ['answer'], after: 'yes' },
        { path: ['greeting'], after: 'hello Mira' },
      ],
    });
    expect((await project.perdure(['diff', 'mira', b, a])).stdout).toBe(
      'removed answer\n  - "yes"\nremoved greeting\n  - "hello Mira"\n',
    );
    expect((await project.perdure(['diff', 'mira', a, a])).stdout).toBe('no difference\n');
    const unknown = await project.perdure(['diff', 'mira', a, 'nowhere', '--json']);
    expect({ status: unknown.status, code: errorOf(unknown).code }).toEqual({
      status: 1,
      code: 'CHECKPOINT_UNKNOWN',
    });
  });
});
