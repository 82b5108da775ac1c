import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  countRows,
  double,
  errorOf,
  isRunning,
  makeProject,
  until,
  type Ended,
  type TestProject,
} from './perdure.ts';

const LIMIT = 120_000;

let project: TestProject;
beforeAll(() => {
  project = makeProject('run');
});
afterAll(() => project.remove(), LIMIT);

const ask = (name: string) => ['run', 'ask', '--input', JSON.stringify({ name }), '--json'];

test(
  'with no worker up, a detached run and a detached answer are taken at once; a worker completes them, once',
  { timeout: LIMIT },
  async () => {
    const taken = await project.perdure([...ask('Mira'), '--thread', 'patient', '--detach', '--no-worker']);
    expect(taken.status).toBe(0);
    expect(taken.json).toMatchObject({
      thread_id: 'patient',
      graph: 'ask',
      status: 'pending',
      run_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
    });
    expect(workers()).toEqual([]);

    const up = await project.perdure(['up', '--json']);
    expect(up.status).toBe(0);
    const asked = await until(
      async () => questionsOf(await project.perdure(['approvals', '--thread', 'patient', '--json']))[0],
    );
    // The worker goes away again; the answer is taken all the same.
    await project.perdure(['down']);
    const answered = await project.perdure([
      'resume',
      'patient',
      '--interrupt',
      asked.id,
      '--value',
      '"yes"',
      '--detach',
      '--no-worker',
      '--json',
    ]);
    expect({ status: answered.status, run: answered.json['status'] }).toEqual({ status: 0, run: 'pending' });
    await project.perdure(['up']);
    const thread = await until(async () => {
      const { json } = await project.perdure(['thread', 'patient', '--json']);
      return json['status'] === 'idle' ? json : undefined;
    });
    expect(thread['runs']).toMatchObject([
      { kind: 'resume', status: 'success', run_id: answered.json['run_id'] },
      { kind: 'input', status: 'interrupted', run_id: taken.json['run_id'] },
    ]);
  },
);

describe('run and resume', { timeout: LIMIT }, () => {
  test('end in the output', async () => {
    const ended = await project.perdure(['run', 'double', '--input', '{"n":21}', '--json']);
    expect(ended.status).toBe(0);
    expect(ended.json).toEqual({
      thread_id: expect.any(String),
      run_id: expect.any(String),
      graph: 'double',
      version: expect.stringMatching(/^[0-9a-f]{8}$/),
      status: 'success',
      values: { n: 42 },
    });
  });

  test('take input from a file and from stdin', async () => {
    project.write('input.json', '{"n":1}');
    const [file, stdin] = [
      await project.perdure(['run', 'double', '--input', 'input.json', '--json']),
      await project.perdure(['run', 'double', '--input', '-', '--json'], { stdin: '{"n":2}' }),
    ];
    expect([file.json['values'], stdin.json['values']]).toEqual([{ n: 2 }, { n: 4 }]);
  });

  test('stop at a question with 3, and finish with its answer', async () => {
    const ended = await project.perdure([...ask('Noor'), '--thread', 'noor']);
    expect(ended.status).toBe(3);
    expect(ended.json).toMatchObject({
      status: 'interrupted',
      interrupts: [
        {
          id: expect.any(String),
          node: 'approve',
          value: { question: 'send hello Noor' },
          kind: 'interrupt',
        },
      ],
      next: ['approve'],
    });
    const { id = '' } = questionsOf(ended)[0] ?? {};
    const wrong = await project.perdure([
      'resume',
      'noor',
      '--interrupt',
      'another',
      '--value',
      '1',
      '--json',
    ]);
    expect({ status: wrong.status, error: errorOf(wrong) }).toMatchObject({
      status: 1,
      error: { code: 'INTERRUPT_UNKNOWN', details: { pending: [id] } },
    });
    const answerless = await project.perdure(['resume', 'noor', '--json']);
    expect({ status: answerless.status, message: errorOf(answerless).message }).toMatchObject({
      status: 2,
      message: expect.stringContaining('--value'),
    });

    const done = await project.perdure([
      'resume',
      'noor',
      '--interrupt',
      id,
      '--value',
      '{"ok":true}',
      '--json',
    ]);
    expect(done.status).toBe(0);
    expect(done.json).toMatchObject({ status: 'success', values: { name: 'Noor', answer: { ok: true } } });

    const again = await project.perdure([
      'resume',
      'noor',
      '--interrupt',
      id,
      '--value',
      '{"ok":true}',
      '--json',
    ]);
    expect(again.json['run_id']).toBe(done.json['run_id']);
    const other = await project.perdure([
      'resume',
      'noor',
      '--interrupt',
      id,
      '--value',
      '{"ok":false}',
      '--json',
    ]);
    expect({ status: other.status, error: errorOf(other) }).toMatchObject({
      status: 1,
      error: { code: 'INTERRUPT_ALREADY_ANSWERED', message: expect.stringContaining('user:mira') },
    });
  });

  test('show a person the question and the command that answers it', async () => {
    const { status, stdout } = await project.perdure([
      'run',
      'ask',
      '--input',
      '{"name":"Ada\\u001b[2J"}',
      '--thread',
      'it is Ada',
    ]);
    expect(status).toBe(3);
    expect(stdout).toContain('"question": "send hello Ada');
    expect(stdout).toMatch(/perdure resume 'it is Ada' --interrupt \w+ --value 'JSON'/);
    expect(stdout).not.toContain('\u001b');
  });

  test('go on after a static interrupt', async () => {
    const stopped = await project.perdure([
      'run',
      'stops',
      '--input',
      '{"n":1}',
      '--thread',
      'static',
      '--json',
    ]);
    expect({
      status: stopped.status,
      next: stopped.json['next'],
      interrupts: stopped.json['interrupts'],
    }).toEqual({ status: 3, next: ['after'], interrupts: [] });
    const done = await project.perdure(['resume', 'static', '--json']);
    expect({ status: done.status, values: done.json['values'] }).toEqual({ status: 0, values: { n: 20 } });
    expect((await project.perdure(['resume', 'static'])).status).toBe(2);
  });

  test('end with 1 when the graph fails', async () => {
    const ended = await project.perdure(['run', 'fails', '--input', '{"n":1}', '--json']);
    expect(ended.status).toBe(1);
    expect(ended.json).toMatchObject({ status: 'error', error: { message: 'no such luck' } });
  });

  test('refuse a busy thread when told to, and cancel what runs', async () => {
    const slow = (...more: string[]) => [
      'run',
      'slow',
      '--input',
      '{"n":60000}',
      '--thread',
      'slow',
      '--json',
      ...more,
    ];
    const waiting = project.start(slow());
    await until(async () =>
      (await project.perdure(['threads', '--status', 'busy', '--json'])).stdout.includes('"slow"')
        ? true
        : undefined,
    );
    const refused = await project.perdure(slow('--strategy', 'reject'));
    expect({ status: refused.status, code: errorOf(refused).code }).toEqual({
      status: 1,
      code: 'THREAD_BUSY',
    });
    const cancelled = await project.perdure(['cancel', 'slow', '--json']);
    expect(cancelled.status).toBe(0);
    const ended = await waiting.ended;
    expect({ status: ended.status, run: ended.json['status'] }).toEqual({ status: 1, run: 'cancelled' });
  });

  test('leave the run to itself when Ctrl-C ends the waiting', async () => {
    const waiting = project.start(['run', 'slow', '--input', '{"n":4000}', '--thread', 'left', '--json']);
    await until(async () =>
      (await project.perdure(['threads', '--status', 'busy', '--json'])).stdout.includes('"left"')
        ? true
        : undefined,
    );
    waiting.child.kill('SIGINT');
    const ended = await waiting.ended;
    expect({ status: ended.status, thread: ended.json['thread_id'] }).toEqual({
      status: 130,
      thread: 'left',
    });
    expect(ended.stderr).toContain('perdure thread left');
    await until(async () =>
      (await project.perdure(['thread', 'left', '--json'])).json['status'] === 'idle' ? true : undefined,
    );
  });

  test('refuse another graph, or another version, on a thread', async () => {
    const before = await countRows(project);
    const graph = await project.perdure([
      'run',
      'double',
      '--input',
      '{"n":1}',
      '--thread',
      'noor',
      '--json',
    ]);
    const version = await project.perdure([
      'run',
      'ask',
      '--input',
      '{"name":"x"}',
      '--thread',
      'noor',
      '--version',
      '2',
      '--json',
    ]);
    expect([graph, version].map((ended) => [ended.status, errorOf(ended).code])).toEqual([
      [1, 'VERSION_MISMATCH'],
      [1, 'GRAPH_UNKNOWN'],
    ]);
    expect(await countRows(project)).toEqual(before);
  });
});

describe('the worker', { timeout: LIMIT }, () => {
  test('is left alone while nothing changes, and replaced before a run when the code was edited', async () => {
    const [before] = workers();
    project.write('double.mjs', double('n * 3'));
    const ended = await project.perdure(['run', 'double', '--input', '{"n":1}', '--json']);
    expect(ended.json['values']).toEqual({ n: 3 });
    const [after, ...more] = workers();
    expect(more).toEqual([]);
    expect(after?.pid).not.toBe(before?.pid);
    expect(await isRunning(before?.pid ?? 0)).toBe(false);
    await project.perdure(['run', 'double', '--input', '{"n":1}', '--json']);
    expect(workers()).toEqual([after]);
  });

  test('goes on serving when an edit does not load', async () => {
    const [before] = workers();
    project.write('graphs.ts', 'export const broken = ;');
    const ended = await project.perdure(['run', 'double', '--input', '{"n":1}', '--json']);
    expect(ended.status).toBe(1);
    expect(errorOf(ended)).toMatchObject({
      code: 'GRAPH_LOAD_FAILED',
      message: expect.stringContaining('graphs.ts'),
    });
    expect(workers()).toEqual([before]);
    expect(await isRunning(before?.pid ?? 0)).toBe(true);
  });
});

describe('several at once', { timeout: LIMIT }, () => {
  test('two commands that need a worker start one, and a project elsewhere with the same graphs uses it', async () => {
    const one = makeProject('several');
    const other = makeProject('elsewhere');
    try {
      const run = ['run', 'ask', '--input', '{"name":"x"}', '--json'];
      const ended = await Promise.all([one.perdure(run), one.perdure(run)]);
      expect(ended.map(({ status }) => status)).toEqual([3, 3]);
      expect(workers(one)).toHaveLength(1);

      const env = { PERDURE_SCHEMA: one.env['PERDURE_SCHEMA'] ?? '' };
      expect((await other.perdure(run, { env })).status).toBe(3);
      expect(workers(other)).toEqual([]);
    } finally {
      await other.remove();
      await one.remove();
    }
  });
});

describe('a worker that was killed', { timeout: LIMIT }, () => {
  test('is replaced by the command that waits for it', async () => {
    const other = makeProject('killed');
    try {
      const waiting = other.start(['run', 'slow', '--input', '{"n":3000}', '--thread', 'slow', '--json']);
      await until(async () =>
        (await other.perdure(['threads', '--json'])).stdout.includes('"busy"') ? true : undefined,
      );
      const [killed] = workers(other);
      process.kill(killed?.pid ?? 0, 'SIGKILL');
      const ended = await waiting.ended;
      expect({ status: ended.status, values: ended.json['values'] }).toEqual({ status: 0, values: { n: 0 } });
      expect(workers(other).map(({ pid }) => pid)).not.toContain(killed?.pid);
    } finally {
      await other.remove();
    }
  });
});

type Question = { id: string; thread_id: string };

function questionsOf({ json }: Ended): Question[] {
  return (json['interrupts'] ?? []) as Question[];
}

function workers(of = project): { pid: number }[] {
  const file = join(of.folder, '.perdure/workers.json');
  return existsSync(file)
    ? (JSON.parse(readFileSync(file, 'utf8')) as { workers: { pid: number }[] }).workers
    : [];
}
