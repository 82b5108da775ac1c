import { describe, expect, test } from 'vitest';
import { brokenRules, FLOORS } from './import-rule.ts';
import { projectFiles, readText } from './project-files.ts';

test('every file of src/ imports from lower floors and its own folder only', () => {
  const files = projectFiles('src').filter((path) => path.endsWith('.ts'));
  expect(files).toContain('src/contracts/ids.ts');
  expect(brokenRules(files.map((path) => ({ path, text: readText(path) })))).toEqual([]);
});

describe('the check sees', () => {
  const broken = (path: string, text: string) => brokenRules([{ path, text }]);

  test.each([
    ['an import from a higher floor', `import { x } from '../graph/run.ts';`],
    ['a re-export', `export { x } from '../graph/run.ts';`],
    ['a re-export of everything', `export * from '../graph/run.ts';`],
    ['an import of types', `import type { X } from '../graph/run.ts';`],
    ['a type taken in place', `export type X = import('../graph/run.ts').X;`],
    ['a dynamic import', `export const load = async () => await import('../graph/run.ts');`],
    ['a require', `export const x = require('../graph/run.ts');`],
    ['an import for its effects', `import '../graph/run.ts';`],
    ['an import written over lines', `import {\n  x,\n} from\n  '../graph/run.ts';`],
  ])('%s', (_, text) => {
    expect(broken('src/events/append.ts', text)).toEqual([
      "src/events/append.ts:1 imports '../graph/run.ts': graph (floor 3) is above events (floor 2)",
    ]);
  });

  test('an import from beside, and the line it stands on', () => {
    expect(broken('src/events/append.ts', `\n\nimport { x } from '../state/reduce.ts';`)).toEqual([
      "src/events/append.ts:3 imports '../state/reduce.ts': state is on the same floor as events",
    ]);
  });

  test.each([
    [
      'src/contracts/ids.ts',
      `import { readFile } from 'node:fs/promises';`,
      'contracts imports zod and no other package',
    ],
    ['src/contracts/ids.ts', `import { x } from 'zodiac';`, 'contracts imports zod and no other package'],
    ['src/contracts/ids.ts', `await import(name);`, 'what contracts imports must be readable'],
    [
      'src/workflows/thread.ts',
      `import { z } from 'zod';`,
      'workflows imports @temporalio/workflow and no other',
    ],
    ['src/workflows/thread.ts', `import type { A } from '../graph/a.ts';`, 'workflows imports contracts and'],
    [
      'src/workflows/thread.ts',
      `import type { A } from '../activities/a.ts';`,
      'workflows imports contracts and',
    ],
    ['src/cli/main.ts', `import { x } from '../index.ts';`, 'src/index.ts is above everything'],
    ['src/cli/main.ts', `import { x } from 'perdure';`, 'the package does not import itself'],
    ['src/cli/main.ts', `import { x } from '../../workers/worker.ts';`, 'it leaves src/'],
    ['src/helpers/a.ts', `import { z } from 'zod';`, 'stands on no floor'],
    ['src/stray.ts', `import { z } from 'zod';`, 'stands on no floor'],
  ])('%s with %s', (path, text, reason) => {
    expect(broken(path, text)).toEqual([expect.stringContaining(reason)]);
  });

  test.each([
    `export const url = process.env['DATABASE_URL'];`,
    `export const url = process['env'].DATABASE_URL;`,
    `export const url = globalThis.process.env.DATABASE_URL;`,
    `const { env } = process;`,
    `import { env } from 'node:process';`,
    `export const copy = { ...process.env };`,
    `spawn('ps', [], { env: { PATH: process.env.PATH } });`,
    `use({ env: () => process.env });`,
  ])('the environment read outside src/config: %s', (text) => {
    const told = [expect.stringContaining('only src/config reads the environment')];
    expect(broken('src/postgres/pool.ts', text)).toEqual(told);
    expect(broken('src/dev/up.ts', text)).toEqual(told);
    expect(broken('src/config/environment.ts', text)).toEqual([]);
  });

  test('a file that cannot be parsed', () => {
    expect(() => broken('src/cli/main.ts', 'import {')).toThrow('src/cli/main.ts cannot be parsed');
  });
});

describe('the check lets through', () => {
  test.each([
    [
      'src/cli/main.ts',
      `import { x } from '../contracts/ids.ts'; import { y } from '../graph/run.ts'; import 'pg';`,
    ],
    ['src/contracts/runs.ts', `import { z } from 'zod'; import { x } from './ids.ts';`],
    [
      'src/workflows/thread.ts',
      `import { condition } from '@temporalio/workflow'; import '../contracts/runs.ts';`,
    ],
    ['src/graph/load.ts', `export const load = async (file: string) => await import(file);`],
    ['src/index.ts', `export { x } from './graph/define.ts'; export { y } from './client/index.ts';`],
    ['src/dev/start.ts', `spawn('ps', [], { env: { ...process.env, LC_ALL: 'C' } });`],
    ['src/dev/start.ts', `spawn('ps', [], { env: process.env });`],
    ['src/dev/start.ts', `spawn('ps', [], { env: without(process.env, 'GOOS') });`],
  ])('%s with %s', (path, text) => {
    expect(brokenRules([{ path, text }])).toEqual([]);
  });

  test('each folder stands on one floor', () => {
    const folders = FLOORS.flat();
    expect(new Set(folders).size).toBe(folders.length);
  });
});
