import type { JsonValue } from '../contracts/json.ts';
import { UnknownGraphError } from '../contracts/errors.ts';
import type { GraphSource, Project } from '../graph/langgraph-json.ts';
import type { LoadedGraph } from '../graph/load-graphs.ts';
import { UsageError } from './exit-status.ts';

/**
 * The entry of a graph, and of a version where one is asked for and named; else the newest one.
 * @throws UnknownGraphError that lists those which langgraph.json names.
 */
export function graphSource(project: Project, graph: string, version?: string): GraphSource {
  const sources = project.graphs.filter(({ name }) => name === graph);
  const source = sources.find((one) => version !== undefined && one.version === version) ?? sources.at(-1);
  if (source) return source;
  const known = project.graphs.map(({ name }) => name);
  throw new UnknownGraphError(
    `${project.file} names no graph '${graph}'; it has ${known.join(', ') || 'none'}.`,
    { graph, known },
  );
}

/**
 * Lets the graph's own schema look at the input, where it has one, before anything is recorded.
 * @throws UsageError with what the schema says.
 */
export async function checkInput({ graph, name, version }: LoadedGraph, input: JsonValue): Promise<void> {
  try {
    await validator(graph)?.(structuredClone(input));
  } catch (error) {
    throw new UsageError(
      `--input: ${name}@${version} refuses it: ${reason(error)}`,
      { graph: name, version, issues: issuesOf(error) },
      { cause: error },
    );
  }
}

/** LangGraph's own check of a run's input. It has no public door; a graph without it is left to the run itself. */
function validator(graph: object): ((input: unknown) => Promise<unknown>) | undefined {
  if (!('_validateInput' in graph) || typeof graph._validateInput !== 'function') return undefined;
  const validate = graph._validateInput as (this: object, input: unknown) => Promise<unknown>;
  return (input) => validate.call(graph, input);
}

type Issue = { path: string; message: string };

/** Of zod's error, or of any Standard Schema's. */
function issuesOf(error: unknown): Issue[] {
  if (typeof error !== 'object' || error === null || !('issues' in error) || !Array.isArray(error.issues))
    return [];
  return error.issues.map((issue: { path?: unknown; message?: unknown }) => ({
    path: Array.isArray(issue.path) ? issue.path.map((part: unknown) => keyOf(part)).join('.') : '',
    message: String(issue.message),
  }));
}

function keyOf(part: unknown): string {
  return typeof part === 'object' && part !== null && 'key' in part ? String(part.key) : String(part);
}

function reason(error: unknown): string {
  const issues = issuesOf(error);
  if (issues.length > 0)
    return issues.map(({ path, message }) => (path === '' ? message : `${path}: ${message}`)).join('; ');
  return error instanceof Error ? error.message : String(error);
}
