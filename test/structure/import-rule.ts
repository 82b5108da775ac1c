import { dirname, join } from 'node:path/posix';
import { parseModule, type ImportedModule } from './parse-module.ts';

/** The folders of src/, lowest floor first. A file imports from lower floors, and within its own folder. */
export const FLOORS = [
  ['contracts'],
  ['config', 'postgres', 'telemetry', 'dev'],
  ['events', 'state', 'checkpoint', 'operations', 'artifacts', 'threads'],
  ['graph', 'memory', 'privacy'],
  ['workflows', 'activities'],
  ['client'],
  ['server', 'cli'],
] as const;

/** Folders that may import these packages and no others. */
const ONLY_PACKAGES: Partial<Record<string, string>> = {
  contracts: 'zod',
  workflows: '@temporalio/workflow',
};

/** Above every floor: what users import. */
const TOP = 'src/index.ts';

/** A file of src/, its path relative to the project and with forward slashes. */
export type SourceFile = { path: string; text: string };

/** One sentence for each import or reading of the environment that breaks the rule of the layout. */
export function brokenRules(files: readonly SourceFile[]): string[] {
  return files.flatMap(({ path, text }) => {
    const { imports, environmentReads } = parseModule(path, text);
    return [
      ...imports.flatMap((imported) => {
        const broken = brokenByImport(path, imported);
        if (broken === undefined) return [];
        const what = imported.specifier === undefined ? 'a computed path' : `'${imported.specifier}'`;
        return [`${path}:${imported.line} imports ${what}: ${broken}`];
      }),
      ...environmentReads
        .filter(({ onlyPassedOn }) => !mayReadEnvironment(folderOf(path), onlyPassedOn))
        .map(({ line }) => `${path}:${line} reads process.env: only src/config reads the environment`),
    ];
  });
}

function mayReadEnvironment(folder: string | undefined, onlyPassedOn: boolean): boolean {
  return folder === 'config' || ((folder === 'dev' || folder === 'cli') && onlyPassedOn);
}

function brokenByImport(path: string, { specifier }: ImportedModule): string | undefined {
  if (path === TOP) return undefined;
  const folder = folderOf(path);
  const floor = floorOf(folder);
  if (folder === undefined || floor === undefined) {
    return `${path} stands on no floor; a new folder of src/ needs a place in FLOORS`;
  }
  const only = ONLY_PACKAGES[folder];
  if (specifier === undefined) {
    return only === undefined ? undefined : `what ${folder} imports must be readable from its text`;
  }
  if (!specifier.startsWith('.')) return brokenByPackage(folder, only, specifier);

  const target = join(dirname(path), specifier);
  if (target === TOP) return 'src/index.ts is above everything';
  if (!target.startsWith('src/')) return 'it leaves src/';
  const targetFolder = folderOf(target);
  const targetFloor = floorOf(targetFolder);
  if (targetFolder === undefined || targetFloor === undefined) return `${target} stands on no floor`;
  if (targetFolder === folder) return undefined;
  if (folder === 'workflows' && targetFolder !== 'contracts') {
    return `workflows imports contracts and ${only} only, not ${targetFolder}`;
  }
  if (targetFloor < floor) return undefined;
  return targetFloor === floor
    ? `${targetFolder} is on the same floor as ${folder}`
    : `${targetFolder} (floor ${targetFloor}) is above ${folder} (floor ${floor})`;
}

function brokenByPackage(folder: string, only: string | undefined, specifier: string): string | undefined {
  if (specifier === 'perdure' || specifier.startsWith('perdure/'))
    return 'the package does not import itself';
  if (only === undefined || specifier === only || specifier.startsWith(`${only}/`)) return undefined;
  return `${folder} imports ${only} and no other package`;
}

/** `contracts` of `src/contracts/ids.ts`; nothing for a file that lies in src/ itself. */
function folderOf(path: string): string | undefined {
  const [src, folder, ...rest] = path.split('/');
  return src === 'src' && rest.length > 0 ? folder : undefined;
}

function floorOf(folder: string | undefined): number | undefined {
  const floor = FLOORS.findIndex((folders) => (folders as readonly (string | undefined)[]).includes(folder));
  return floor === -1 ? undefined : floor;
}
