import { parseSync } from 'vite';

/** What one import, re-export, dynamic import, import type or require names; no specifier where it is computed. */
export type ImportedModule = { specifier: string | undefined; line: number };

/** A place that reads process.env. It is only passed on where it goes whole into the `env` of an object. */
export type EnvironmentRead = { line: number; onlyPassedOn: boolean };

type Node = { type: string; start: number } & Record<string, unknown>;

/** Reads a module's text without running it. */
export function parseModule(
  path: string,
  text: string,
): { imports: ImportedModule[]; environmentReads: EnvironmentRead[] } {
  const { program, errors } = parseSync(path, text);
  const [error] = errors;
  if (error !== undefined) throw new Error(`${path} cannot be parsed: ${error.message}`);

  const imports: ImportedModule[] = [];
  const environmentReads: EnvironmentRead[] = [];
  const lineOf = (node: Node) => text.slice(0, node.start).split('\n').length;
  walk(program, [], (node, ancestors) => {
    const source = importedBy(node);
    if (source !== undefined) imports.push({ specifier: textOf(source), line: lineOf(node) });
    if (readsEnvironment(node)) {
      environmentReads.push({ line: lineOf(node), onlyPassedOn: isPassedOn(ancestors) });
    }
  });
  return { imports, environmentReads };
}

function walk(
  value: unknown,
  ancestors: readonly Node[],
  visit: (node: Node, ancestors: readonly Node[]) => void,
) {
  if (Array.isArray(value)) {
    for (const item of value) walk(item, ancestors, visit);
  } else if (isNode(value)) {
    visit(value, ancestors);
    const below = [...ancestors, value];
    for (const child of Object.values(value)) walk(child, below, visit);
  }
}

/** The node that names the module, where `node` imports one. */
function importedBy(node: Node): unknown {
  switch (node.type) {
    case 'ImportDeclaration':
    case 'ExportAllDeclaration':
    case 'ImportExpression':
    case 'TSImportType':
      return node['source'];
    case 'ExportNamedDeclaration':
      return node['source'] ?? undefined;
    case 'TSExternalModuleReference':
      return node['expression'];
    case 'CallExpression':
      return isNamed(node['callee'], 'require') ? firstOf(node['arguments']) : undefined;
    default:
      return undefined;
  }
}

/** `process.env`, `globalThis.process.env`, `{ env } = process`, and `import { env } from 'node:process'`. */
function readsEnvironment(node: Node): boolean {
  switch (node.type) {
    case 'MemberExpression':
      return nameOf(node['property']) === 'env' && isProcess(node['object']);
    case 'VariableDeclarator':
      return isProcess(node['init']) && takesEnvironment(node['id'], 'properties', 'key');
    case 'ImportDeclaration':
      return (
        ['process', 'node:process'].includes(textOf(node['source']) ?? '') &&
        takesEnvironment(node, 'specifiers', 'imported')
      );
    default:
      return false;
  }
}

function takesEnvironment(node: unknown, list: string, name: string): boolean {
  if (!isNode(node)) return false;
  const taken = node[list];
  return Array.isArray(taken) && taken.some((item) => isNode(item) && nameOf(item[name]) === 'env');
}

/** `env: process.env`, `env: { ...process.env, LANG: 'C' }`, `env: withoutSecrets(process.env)`. */
function isPassedOn(ancestors: readonly Node[]): boolean {
  const around = ancestors.toReversed();
  if (around[0]?.type === 'MemberExpression') return false;
  const owner = around.findIndex(
    ({ type, ...node }) => type === 'Property' && nameOf(node['key']) === 'env' && !node['computed'],
  );
  return owner !== -1 && !around.slice(0, owner).some(({ type }) => type.includes('Function'));
}

function isProcess(value: unknown): boolean {
  if (isNamed(value, 'process')) return true;
  return (
    isNode(value) &&
    value.type === 'MemberExpression' &&
    isNamed(value['object'], 'globalThis') &&
    nameOf(value['property']) === 'process'
  );
}

/** The name of an identifier, or the text of a string that stands in its place. */
function nameOf(value: unknown): string | undefined {
  if (!isNode(value)) return undefined;
  const name = value.type === 'Identifier' ? value['name'] : value['value'];
  return typeof name === 'string' ? name : undefined;
}

function textOf(value: unknown): string | undefined {
  if (!isNode(value)) return undefined;
  if (value.type === 'TSLiteralType') return textOf(value['literal']);
  return value.type === 'Literal' && typeof value['value'] === 'string' ? value['value'] : undefined;
}

function isNamed(value: unknown, name: string): boolean {
  return isNode(value) && value.type === 'Identifier' && value['name'] === name;
}

function firstOf(list: unknown): unknown {
  return Array.isArray(list) ? list[0] : undefined;
}

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && 'type' in value && typeof value.type === 'string';
}
