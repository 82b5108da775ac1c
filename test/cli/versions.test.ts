import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { errorOf, makeProject, type TestProject } from './perdure.ts';

const LIMIT = 120_000;

const graph = (nodes: string) => `
import { Annotation, interrupt, START, StateGraph } from '@langchain/langgraph';
const state = Annotation.Root({ amount: Annotation, paid: Annotation });
export const order = new StateGraph(state)
  .addNode('ask', ({ amount }) => ({ paid: [interrupt({ pay: amount }), amount] }))
  .addEdge(START, 'ask')${nodes}
  .compile();
`;
const THANK = `.addNode('thank', () => ({})).addEdge('ask', 'thank')`;
const RENAMED = `.addNode('other', () => ({})).addEdge('ask', 'other')`;

/** Two versions side by side, the newer one with migrations in a module of its own. */
const BOTH = {
  graphs: { order: './order18.mjs:order', 'order@17': './order17.mjs:order' },
  perdure: { graphs: { order: { version: '18', migrations: './migrations.ts' } } },
};

let project: TestProject;
beforeAll(async () => {
  project = makeProject('versions');
  project.write('order17.mjs', graph(''));
  project.write('order18.mjs', graph(THANK));
  project.write('order19.mjs', graph(RENAMED).replaceAll("'ask'", "'asks'"));
  project.write(
    'migrations.ts',
    `export default { '17->18': (values: Record<string, unknown>) => ({ ...values, amount: [values['amount'], 'EUR'] }) };`,
  );
  project.write(
    'langgraph.json',
    JSON.stringify({
      graphs: { order: './order17.mjs:order' },
      perdure: { graphs: { order: { version: '17' } } },
    }),
  );
  for (const name of ['ada', 'noor']) {
    const run = await project.perdure(['run', 'order', '--input', '{"amount":20}', '--thread', name]);
    expect(run.status).toBe(3);
  }
}, LIMIT);
afterAll(() => project.remove(), LIMIT);

type Line = { name: string; version: string };
async function doctor() {
  const { json, stdout, status } = await project.perdure(['doctor', '--json']);
  const graphs = json['graphs'] as Line[];
  return { status, stdout, json, of: (version: string) => graphs.find((one) => one.version === version) };
}

const migrate = (...options: string[]) =>
  project.perdure(['threads', 'migrate', '--graph', 'order', '--to', '18', ...options]);

describe('versions', { timeout: LIMIT }, () => {
  test('a project that has only the new one: doctor says what is missing, and what to do', async () => {
    project.write(
      'langgraph.json',
      JSON.stringify({
        graphs: { order: './order18.mjs:order' },
        perdure: { graphs: { order: { version: '18' } } },
      }),
    );
    await project.perdure(['up']);
    const { status, json, of } = await doctor();
    expect(status).toBe(1);
    expect(of('17')).toMatchObject({ workers: 0, waiting: 2, busy: 0, idle: 0 });
    expect(json['problems']).toMatchObject([
      {
        code: 'VERSION_NOT_SERVED',
        message: expect.stringMatching(
          /2 threads are .* order@17 .*code of that version.*perdure threads migrate --graph order --from 17 --to 18 --dry-run/,
        ),
      },
    ]);
    const none = await migrate('--json');
    expect(none.status).toBe(1);
    expect(none.json).toMatchObject({
      counts: { no_path: 2 },
      threads: [{ thread_id: 'ada', reason: 'no migration from 17' }, { thread_id: 'noor' }],
    });
  });

  test('both side by side: a dry run, then one thread moves and the other stays', async () => {
    project.write('langgraph.json', JSON.stringify(BOTH));
    const shown = await migrate('--dry-run');
    expect({ status: shown.status, stderr: shown.stderr }).toMatchObject({ status: 0 });
    expect(shown.stdout).toMatch(/ada\s+17\s+18\s+migrates: changes amount/);
    expect((await doctor()).of('17')).toMatchObject({ workers: 1, waiting: 2 });

    const moved = await migrate('--thread', 'ada', '--json');
    expect(moved.json).toMatchObject({
      graph: 'order',
      to: '18',
      dry_run: false,
      counts: { migrated: 1 },
      threads: [{ thread_id: 'ada', from: '17', to: '18', outcome: 'migrated', changed: ['amount'] }],
    });
    const [ada, noor] = await Promise.all(
      ['ada', 'noor'].map((name) => project.perdure(['resume', name, '--value', 'true', '--json'])),
    );
    expect(ada?.json).toMatchObject({ version: '18', values: { paid: [true, [20, 'EUR']] } });
    expect(noor?.json).toMatchObject({ version: '17', values: { paid: [true, 20] } });
  });

  test('new threads begin under the plain entry, or the version that is asked for', async () => {
    const run = (...options: string[]) =>
      project.perdure(['run', 'order', '--input', '{"amount":1}', '--json', ...options]);
    expect((await run()).json).toMatchObject({ version: '18' });
    expect((await run('--version', '17', '--thread', 'old')).json).toMatchObject({ version: '17' });
    expect((await project.perdure(['cancel', 'old'])).status).toBe(0);
  });

  test('doctor tells when the old version may be switched off', async () => {
    const { status, json } = await doctor();
    expect({ status, hints: json['hints'] }).toMatchObject({
      status: 0,
      hints: [
        {
          code: 'VERSION_DRAINED',
          message: expect.stringMatching(/order@17 .*may be switched off.* 2 ended/),
        },
      ],
    });
  });

  test.each([
    [['--to', '99'], 'GRAPH_UNKNOWN', '17, 18'],
    [['--to', '18', '--from', '18'], 'INPUT_INVALID', 'nothing to migrate'],
    [['--to', '18', '--thread', 'nobody'], 'THREAD_UNKNOWN', 'nobody'],
  ])('migrate with %j is refused', async (options, code, message) => {
    const refused = await project.perdure(['threads', 'migrate', '--graph', 'order', ...options, '--json']);
    expect(refused.status).toBeGreaterThan(0);
    expect(errorOf(refused)).toMatchObject({ code, message: expect.stringContaining(message) });
  });

  test.each([
    [{ 'order@': './order17.mjs:order' }, {}, 'graphs.order@'],
    [{ 'order@17': './order17.mjs:order' }, { 'order@17': { version: '16' } }, 'the key says 17'],
    [{ order: './order17.mjs:order' }, { order: { migrations: './none.ts' } }, 'order.migrations'],
    [
      { order: './order17.mjs:order' },
      { order: { migrations: './order17.mjs:order' } },
      'from which version',
    ],
  ])('a langgraph.json with %j and %j is refused', async (graphs, own, message) => {
    project.write('langgraph.json', JSON.stringify({ graphs, perdure: { graphs: own } }));
    const { json } = await project.perdure(['doctor', '--json']);
    expect(JSON.stringify(json['problems'])).toContain(message);
  });
});
