import { existsSync, readFileSync } from 'node:fs';
import { dirname, isAbsolute, join, resolve } from 'node:path';
import { z } from 'zod';
import { ConfigError } from '../contracts/errors.ts';
import { graphName, graphVersion } from '../contracts/ids.ts';
import { retryPolicy, type RetryPolicy } from '../contracts/retry-policy.ts';
import { toolsSettings, type ToolsSettings } from '../contracts/tool-settings.ts';
import { nodePolicies, type NodePoliciesInput } from '../contracts/node-policy.ts';

const graphEntry = z.union([
  z.string(),
  z.looseObject({ path: z.string(), description: z.string().optional() }),
]);

const graphSettings = z.strictObject({
  version: graphVersion.optional(),
  migrations: z.string().optional(),
  nodes: nodePolicies.optional(),
  retry: retryPolicy.optional(),
  tools: toolsSettings.optional(),
});

/** LangGraph's own file. What perdure does not need (dependencies, node_version, http, ...) is left alone. */
const langgraphJson = z.looseObject({
  /** By name, or as `name@version` where several versions of one graph are served side by side. */
  graphs: z.record(z.string(), graphEntry),
  env: z.union([z.string(), z.record(z.string(), z.string())]).optional(),
  /** Ours: what graphs whose own code names none of it run under. */
  perdure: z.strictObject({ graphs: z.record(z.string(), graphSettings).optional() }).optional(),
});

export type GraphSource = {
  name: string;
  /** Absolute. */
  file: string;
  /** The name of the export, `default` for the default one. */
  exportName: string;
  /** Where langgraph.json gives one. */
  version: string | undefined;
  /** The export that holds migrations for a graph whose own code has none. */
  migrations: ModuleExport | undefined;
  retry?: RetryPolicy | undefined;
  tools?: ToolsSettings | undefined;
  /** How nodes run, where langgraph.json says so. It goes before what the graph's own code says. */
  nodes?: NodePoliciesInput | undefined;
};

/** An export of a module, as langgraph.json names one: `./file.ts:export`. */
export type ModuleExport = {
  /** Absolute. */
  file: string;
  /** `default` for the default one. */
  exportName: string;
};

export type Project = {
  /** The folder that holds langgraph.json. */
  folder: string;
  file: string;
  graphs: GraphSource[];
  /** What langgraph.json's `env` sets; a variable that is set already wins. */
  env: Record<string, string>;
};

/** The nearest langgraph.json in `folder` or above, or undefined. */
export function findProject(folder: string): string | undefined {
  for (let at = resolve(folder); ; at = dirname(at)) {
    const file = join(at, 'langgraph.json');
    if (existsSync(file)) return file;
    if (dirname(at) === at) return undefined;
  }
}

/** @throws ConfigError that names the file and what is wrong in it. */
export function readProject(file: string): Project {
  const folder = dirname(file);
  const parsed = langgraphJson.safeParse(parseJson(file));
  if (!parsed.success) {
    const issue = parsed.error.issues[0];
    throw new ConfigError(`${file}: ${issue?.path.join('.') || 'the document'}: ${issue?.message}`, { file });
  }
  // Those with a version in their key first: of all, the plain one is then registered last, and is the newest.
  const entries = Object.entries(parsed.data.graphs);
  const ordered = [
    ...entries.filter(([key]) => key.includes('@')),
    ...entries.filter(([key]) => !key.includes('@')),
  ];
  const graphs = ordered.map(([name, entry]) =>
    graphSource(
      file,
      folder,
      name,
      typeof entry === 'string' ? entry : entry.path,
      parsed.data.perdure?.graphs?.[name],
    ),
  );
  for (const name of Object.keys(parsed.data.perdure?.graphs ?? {}))
    if (!(name in parsed.data.graphs))
      throw new ConfigError(`${file}: perdure.graphs.${name}: 'graphs' names no such graph.`, { file });
  return { folder, file, graphs, env: readEnv(file, folder, parsed.data.env) };
}

function parseJson(file: string): unknown {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    throw new ConfigError(
      `${file} can't be read: ${error instanceof Error ? error.message : String(error)}`,
      { file },
      { cause: error },
    );
  }
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new ConfigError(
      `${file} is not valid JSON: ${error instanceof Error ? error.message : String(error)}`,
      { file },
      { cause: error },
    );
  }
}

function graphSource(
  file: string,
  folder: string,
  key: string,
  path: string,
  own: z.output<typeof graphSettings> | undefined,
): GraphSource {
  const [, name = key, inKey] = /^([^@]*)@(.*)$/.exec(key) ?? [];
  for (const checked of [graphName.safeParse(name), graphVersion.optional().safeParse(inKey)])
    if (!checked.success)
      throw new ConfigError(`${file}: graphs.${key}: ${checked.error.issues[0]?.message}`, { file });
  if (inKey !== undefined && own?.version !== undefined && own.version !== inKey)
    throw new ConfigError(
      `${file}: perdure.graphs.${key}.version: it is ${own.version}, but the key says ${inKey}`,
      { file },
    );
  return {
    name,
    ...moduleExport(file, folder, `graphs.${key}`, path),
    version: inKey ?? own?.version,
    nodes: own?.nodes,
    migrations:
      own?.migrations === undefined
        ? undefined
        : moduleExport(file, folder, `perdure.graphs.${key}.migrations`, own.migrations),
    retry: own?.retry,
    tools: own?.tools,
  };
}

function moduleExport(file: string, folder: string, where: string, path: string): ModuleExport {
  // A Windows path has a colon after its drive; the export comes after the last one.
  const colon = path.lastIndexOf(':');
  const [source, exportName] = colon > 1 ? [path.slice(0, colon), path.slice(colon + 1)] : [path, 'default'];
  if (source === '' || exportName === '')
    throw new ConfigError(`${file}: ${where}: '${path}' is not ./file.ts:export`, { file });
  const absolute = isAbsolute(source) ? source : resolve(folder, source);
  if (!existsSync(absolute))
    throw new ConfigError(`${file}: ${where}: there is no file ${absolute}`, { file });
  return { file: absolute, exportName };
}

function readEnv(
  file: string,
  folder: string,
  env: string | Record<string, string> | undefined,
): Record<string, string> {
  if (env === undefined) return {};
  if (typeof env !== 'string') return env;
  const path = resolve(folder, env);
  if (!existsSync(path)) throw new ConfigError(`${file}: env: there is no file ${path}`, { file });
  return parseDotEnv(readFileSync(path, 'utf8'));
}

/** NAME=value lines; `#` begins a comment; quotes keep spaces, and in double ones `\n` is a line break. */
export function parseDotEnv(text: string): Record<string, string> {
  const env: Record<string, string> = {};
  for (const line of text.split(/\r?\n/)) {
    const match =
      /^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([^#]*?))\s*(?:#.*)?$/.exec(
        line,
      );
    if (!match?.[1]) continue;
    env[match[1]] = match[2]?.replace(/\\n/g, '\n').replace(/\\(.)/g, '$1') ?? match[3] ?? match[4] ?? '';
  }
  return env;
}
