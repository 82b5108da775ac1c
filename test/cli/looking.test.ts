import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { double, GRAPH_NAMES, LANGGRAPH_JSON, makeProject, onDatabase, type TestProject } from './perdure.ts';

const LIMIT = 120_000;

const PAYS = `
import { Annotation, END, START, StateGraph } from '@langchain/langgraph';
import { operation } from 'perdure';
const state = Annotation.Root({ paid: Annotation<string> });
export const pays = new StateGraph(state)
  .addNode('pay', async () => ({ paid: await operation('charge', { kind: 'exclusive', key: 'charge:order-7', lease: 1_000 }, () => 'paid by the node') }))
  .addEdge(START, 'pay').addEdge('pay', END)
  .compile();
`;

let project: TestProject;
beforeAll(async () => {
  project = makeProject('looking');
  const { graphs } = JSON.parse(LANGGRAPH_JSON) as { graphs: object };
  project.write('pays.ts', PAYS);
  project.write('langgraph.json', JSON.stringify({ graphs: { ...graphs, pays: './pays.ts:pays' } }));
  for (const name of ['ada', 'noor'])
    await project.perdure(['run', 'ask', '--input', `{"name":"${name}"}`, '--thread', name]);
  const done = await project.perdure([
    'run',
    'double',
    '--input',
    '{"n":1}',
    '--thread',
    'numbers',
    '--json',
  ]);
  expect(done.status).toBe(0);
}, LIMIT);
afterAll(() => project.remove(), LIMIT);

describe('threads', { timeout: LIMIT }, () => {
  test('are listed, the newest change first, and filtered', async () => {
    const all = await project.perdure(['threads', '--json']);
    expect(all.json['threads']).toMatchObject([
      { thread_id: 'numbers', graph: 'double', status: 'idle', pending_interrupts: 0 },
      { thread_id: 'noor', graph: 'ask', status: 'interrupted', pending_interrupts: 1 },
      { thread_id: 'ada', status: 'interrupted' },
    ]);
    const some = await project.perdure([
      'threads',
      '--status',
      'interrupted',
      '--graph',
      'ask',
      '--limit',
      '1',
      '--json',
    ]);
    expect(some.json['threads']).toMatchObject([{ thread_id: 'noor' }]);
    const none = await project.perdure(['threads', '--graph', 'nobody']);
    expect({ status: none.status, stdout: none.stdout }).toEqual({ status: 0, stdout: 'no threads\n' });
  });

  test('are shown to people in a table without colours where no terminal is', async () => {
    const { stdout } = await project.perdure(['threads'], { env: { CI: 'true' } });
    expect(stdout).toMatch(
      /^THREAD +GRAPH +STATUS +QUESTIONS +SLEEPS UNTIL +CHANGED\nnumbers +double@\w{8} +idle/,
    );
    expect(stdout).not.toContain('\u001b');
  });

  test('one is shown with its runs, its questions and what comes next', async () => {
    const { json } = await project.perdure(['thread', 'ada', '--json']);
    expect(json).toMatchObject({
      thread_id: 'ada',
      status: 'interrupted',
      next: ['approve'],
      interrupts: [{ node: 'approve', value: { question: 'send hello ada' }, status: 'pending' }],
      runs: [{ kind: 'input', status: 'interrupted', attempts: 1 }],
    });
    const people = await project.perdure(['thread', 'ada']);
    expect(people.stdout).toContain('Answer: perdure resume ada --interrupt');
  });

  test('approvals are the pending questions of all threads, the oldest first', async () => {
    const { json } = await project.perdure(['approvals', '--json']);
    expect(json['interrupts']).toMatchObject([{ thread_id: 'ada', node: 'approve' }, { thread_id: 'noor' }]);
    expect(
      (await project.perdure(['approvals', '--thread', 'noor', '--json'])).json['interrupts'],
    ).toHaveLength(1);
    expect((await project.perdure(['approvals', '--thread', 'numbers'])).stdout).toBe(
      'nothing waits for a person\n',
    );
  });

  test('history lists the checkpoints, the newest first', async () => {
    const { json } = await project.perdure(['history', 'ada', '--json']);
    expect(json).toMatchObject({
      thread_id: 'ada',
      checkpoints: [
        {
          superstep: 1,
          resume_node: 'approve',
          pending_tasks: ['approve'],
          graph_version: expect.stringMatching(/^ask@/),
        },
        { superstep: 0, resume_node: 'write' },
        { superstep: -1, source: 'input' },
      ],
    });
    expect(
      (await project.perdure(['history', 'ada', '--limit', '1', '--json'])).json['checkpoints'],
    ).toHaveLength(1);
  });

  test('cancel withdraws what is asked', async () => {
    const { status, json } = await project.perdure(['cancel', 'noor', '--json']);
    expect(status).toBe(0);
    expect(json).toMatchObject({
      thread_id: 'noor',
      withdrawn_interrupts: [expect.any(String)],
      stopping_run: null,
    });
    expect((await project.perdure(['approvals', '--json'])).json['interrupts']).toMatchObject([
      { thread_id: 'ada' },
    ]);
    expect((await project.perdure(['cancel', 'noor'])).stdout).toBe('nothing was under way\n');
  });
});

test(
  'an operation whose fate is unknown is listed, resolved, and its thread goes on',
  { timeout: LIMIT },
  async () => {
    await project.perdure(['down']);
    // The worker is killed between the effect and its record, once; the command that waits replaces it.
    const env = {
      PERDURE_FAULT: 'operation:effect-done',
      PERDURE_FAULT_ONCE_FILE: join(project.folder, 'killed'),
    };
    const asked = await project.perdure(['run', 'pays', '--input', '{}', '--thread', 'payer', '--json'], {
      env,
    });
    expect({ status: asked.status, json: asked.json }).toMatchObject({
      status: 3,
      json: { interrupts: [{ node: 'pay', kind: 'operation' }] },
    });

    const { json } = await project.perdure(['operations', 'payer', '--status', 'unknown', '--json']);
    expect(json['operations']).toMatchObject([
      { tool: 'charge', kind: 'exclusive', status: 'unknown', thread_id: 'payer' },
    ]);
    const [{ operation_id: id } = { operation_id: '' }] = json['operations'] as { operation_id: string }[];
    const people = await project.perdure(['operations']);
    expect(people.stdout).toContain(`perdure operations resolve ${id} --retry`);

    const resolved = await project.perdure([
      'operations',
      'resolve',
      id,
      '--happened',
      '"paid, says the bank"',
      '--json',
    ]);
    expect(resolved.status).toBe(0);
    expect(resolved.json).toMatchObject({
      operation: { status: 'succeeded', resolved_by: 'user:mira' },
      run_id: expect.any(String),
    });
    const after = await project.perdure(['resume', 'payer', '--json']);
    // By then there is nothing to go on with: it has gone on by itself.
    expect(after.status).toBe(2);
    expect((await project.perdure(['thread', 'payer', '--json'])).json['status']).toBe('idle');
  },
);

describe('doctor', { timeout: LIMIT }, () => {
  test('finds all well, with the password masked unless asked for', async () => {
    await project.perdure(['up']);
    const { status, json, stdout } = await project.perdure(['doctor', '--json']);
    expect(json['problems']).toEqual([]);
    expect(status).toBe(0);
    const password = new URL(project.env['DATABASE_URL'] ?? '').password;
    expect(stdout).not.toContain(password);
    expect(json).toMatchObject({
      ok: true,
      database_url: expect.stringContaining(':***@'),
      temporal_address: project.env['TEMPORAL_ADDRESS'],
    });
    expect(json['graphs']).toHaveLength(GRAPH_NAMES.length + 1);
    expect(json['graphs']).toContainEqual({
      name: 'ask',
      version: expect.any(String),
      workers: 1,
      threads: 1,
      busy: 0,
      waiting: 1,
      idle: expect.any(Number),
      failed: 0,
    });
    const shown = await project.perdure(['doctor', '--json', '--show-secrets']);
    expect(shown.json['database_url']).toBe(project.env['DATABASE_URL']);
  });

  test('names versions that waiting threads need and no worker serves, and changes nothing', async () => {
    await project.perdure(['down']);
    const { status, json } = await project.perdure(['doctor', '--json']);
    expect(status).toBe(1);
    expect(json).toMatchObject({
      ok: false,
      problems: [
        { code: 'VERSION_NOT_SERVED', message: expect.stringMatching(/1 thread is .*ask@\w+.*perdure up/) },
      ],
    });
  });

  test('names a graph that changed under its version, and one that does not load', async () => {
    project.write(
      'double.mjs',
      double().replace("addNode('compute'", "addNode('calculate'").replaceAll("'compute'", "'calculate'"),
    );
    project.write('graphs.ts', 'export const ask = 1');
    project.write(
      'langgraph.json',
      JSON.stringify({
        graphs: { double: './double.mjs', ask: './graphs.ts:ask' },
        perdure: { graphs: { double: { version: await versionOf('double') } } },
      }),
    );
    const { status, json } = await project.perdure(['doctor', '--json']);
    expect(status).toBe(1);
    const codes = (json['problems'] as { code: string }[]).map(({ code }) => code);
    expect(codes).toEqual(expect.arrayContaining(['GRAPH_CHANGED', 'GRAPH_LOAD_FAILED']));
    const run = await project.perdure(['up', '--json']);
    expect({ status: run.status, code: run.json }).toMatchObject({
      status: 1,
      code: { error: { code: 'GRAPH_LOAD_FAILED' } },
    });
  });

  test.each([
    ['a broken langgraph.json', {}, 'CONFIG_INVALID', '{'],
    [
      'a schema that lacks its tables',
      { PERDURE_SCHEMA: 'cli_never_made' },
      'SCHEMA_NOT_MIGRATED',
      LANGGRAPH_JSON,
    ],
    ['servers that do not run', { DATABASE_URL: '', TEMPORAL_ADDRESS: '' }, 'NOT_RUNNING', LANGGRAPH_JSON],
    [
      'an unreachable Postgres',
      { DATABASE_URL: 'postgres://me:secret@127.0.0.1:9/x' },
      'STORAGE_UNAVAILABLE',
      LANGGRAPH_JSON,
    ],
    ['an unreachable Temporal', { TEMPORAL_ADDRESS: '127.0.0.1:9' }, 'TEMPORAL_UNAVAILABLE', LANGGRAPH_JSON],
    [
      'a namespace that is not there',
      { TEMPORAL_NAMESPACE: 'nowhere' },
      'TEMPORAL_UNAVAILABLE',
      LANGGRAPH_JSON,
    ],
    ['a malformed variable', { PERDURE_POOL_SIZE: 'many' }, 'CONFIG_INVALID', LANGGRAPH_JSON],
  ])('names %s', async (_, env, code, langgraphJson) => {
    project.write('langgraph.json', langgraphJson);
    const { status, json, stdout } = await project.perdure(['doctor', '--json'], { env });
    expect({ status, ok: json['ok'] }).toEqual({ status: 1, ok: false });
    expect(json['problems']).toContainEqual({ code, message: expect.any(String) });
    expect(stdout).not.toContain('secret');
  });
});

async function versionOf(graph: string): Promise<string> {
  return onDatabase(async (client) => {
    const { rows } = await client.query<{ version: string }>(
      `SELECT version FROM "${project.env['PERDURE_SCHEMA']}".graph_versions WHERE graph = $1`,
      [graph],
    );
    return rows[0]?.version ?? '';
  });
}
