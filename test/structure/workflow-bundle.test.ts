import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join, relative, sep } from 'node:path';
import { createContext, runInContext } from 'node:vm';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ROOT } from './project-files.ts';
import { bundleWorkflows, packageOf, type WorkflowBundle } from './workflow-bundle.ts';

/** The SDK alone is 1.6 MB; with LangGraph the bundle would be 12. */
const MOST_BYTES = 2_500_000;

/** What workflow code may be made of, besides the project's own. */
const ALLOWED_PACKAGES =
  /^(@temporalio\/(workflow|common|proto|worker)|@protobufjs\/.+|protobufjs|long|ms|zod|nexus-rpc)$/;

describe('the bundle of src/workflows', () => {
  let bundle: WorkflowBundle;
  beforeAll(async () => {
    bundle = await bundleWorkflows(join(ROOT, 'src/workflows/index.ts'));
  });

  test('holds the project’s workflows and contracts, and none of its other folders', () => {
    const own = bundle.modules.filter((module) => module.startsWith(ROOT) && packageOf(module) === undefined);
    const folders = new Set(own.map((module) => relative(ROOT, module).split(sep).slice(0, 2).join('/')));
    expect(folders).toContain('src/workflows');
    expect([...folders].filter((folder) => !['src/workflows', 'src/contracts'].includes(folder))).toEqual([]);
  });

  test('holds no module of Node, of LangGraph, or of a driver', () => {
    expect(unwelcome(bundle)).toEqual([]);
  });

  test('is under 2.5 MB', () => {
    expect(bundle.code.length).toBeLessThan(MOST_BYTES);
  });

  test('loads where no code can be made from strings, as zod’s compiled parsers would', () => {
    expect(Object.keys(loadWithoutEval(bundle))).toContain('thread');
  });
});

describe('the check sees', () => {
  let folder: string;
  beforeAll(async () => {
    // Inside the project, so that its packages resolve; a dotted name keeps it out of every other check.
    folder = await mkdtemp(join(ROOT, 'node_modules', '.workflow-bundle-'));
  });
  afterAll(async () => {
    await rm(folder, { recursive: true, force: true });
  });

  let count = 0;
  const bundled = async (text: string) => {
    const path = join(folder, `workflow-${(count += 1)}.js`);
    await writeFile(path, text);
    return await bundleWorkflows(path);
  };

  test('a module of Node', async () => {
    await expect(
      bundled(`import { readFile } from 'node:fs/promises'; export const thread = readFile;`).then(unwelcome),
    ).rejects.toThrow();
  });

  test('LangGraph', async () => {
    const bundle = await bundled(`export { isInterrupted as thread } from '@langchain/langgraph/web';`);
    expect(unwelcome(bundle)).toContain('@langchain/langgraph');
    expect(bundle.code.length).toBeGreaterThan(MOST_BYTES);
  });

  test('code made from a string', async () => {
    const bundle = await bundled(`export const thread = new Function('return 1');`);
    expect(() => loadWithoutEval(bundle)).toThrow('Code generation from strings disallowed');
  });
});

/** Packages that have no place in workflow code, and Node's modules. */
function unwelcome({ modules }: WorkflowBundle): string[] {
  const packages = new Set(modules.map((module) => packageOf(module)).filter((name) => name !== undefined));
  return [
    ...[...packages].filter((name) => !ALLOWED_PACKAGES.test(name)),
    ...modules.filter((module) => /^["']?node:/.test(module)),
  ];
}

/** Runs the bundle as a worker does, with the globals that it is given there. */
function loadWithoutEval({ code }: WorkflowBundle): Record<string, unknown> {
  const context = createContext(
    {
      URL,
      URLSearchParams,
      TextEncoder,
      TextDecoder,
      AbortController,
      console,
      __webpack_module_cache__: {},
    },
    { codeGeneration: { strings: false, wasm: false } },
  );
  runInContext(code, context);
  return runInContext('__TEMPORAL__.importWorkflows()', context) as Record<string, unknown>;
}
