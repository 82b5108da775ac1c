import { afterAll, beforeAll, expect, test } from 'vitest';
import { errorOf, makeProject, type TestProject } from './perdure.ts';

const LIMIT = 120_000;

let project: TestProject;
beforeAll(async () => {
  project = makeProject('prune');
  for (const n of [1, 2])
    await project.perdure(['run', 'double', '--input', `{"n":${n}}`, '--thread', 'numbers']);
}, LIMIT);
afterAll(() => project.remove(), LIMIT);

test('prune shows what would go, deletes it, and history says so', { timeout: LIMIT }, async () => {
  const dry = await project.perdure(['prune', '--keep-last', '1', '--dry-run']);
  expect(dry.status).toBe(0);
  expect(dry.stdout).toMatch(/THREAD\s+WOULD GO\s+BYTES\s+KEPT/);
  expect(dry.stdout).toMatch(/numbers\s+\d+\s+[\d.]+ k?B\s+1 by policy/);
  const done = await project.perdure(['prune', 'numbers', '--keep-last', '1', '--json']);
  expect(done.status).toBe(0);
  expect(done.json).toMatchObject({
    dry_run: false,
    totals: { threads: 1, busy: 0 },
    threads: [{ thread_id: 'numbers', graph: 'double', outcome: 'pruned', kept: { policy: 1 } }],
  });
  const history = await project.perdure(['history', 'numbers']);
  expect(history.stdout).toMatch(/\d+ older checkpoints were pruned, last at \d{4}-/);
  const again = await project.perdure([
    'run',
    'double',
    '--input',
    '{"n":21}',
    '--thread',
    'numbers',
    '--json',
  ]);
  expect(again.json).toMatchObject({ status: 'success', values: { n: 42 } });
  const silent = await project.perdure(['prune', '--json']);
  expect({ status: silent.status, code: errorOf(silent).code }).toEqual({ status: 2, code: 'USAGE_INVALID' });
  expect((await project.perdure(['prune', '--older-than', 'a while'])).status).toBe(2);
});
