import { partsOf, type CompiledGraph } from './define-graph.ts';
import type { ChannelValues } from './migration-path.ts';

/** What zod and its like offer for validation: https://standardschema.dev */
type StandardSchema = {
  '~standard': { validate(value: unknown): Result | Promise<Result> };
};
type Result = { issues?: readonly { message: string; path?: readonly unknown[] }[] | undefined };

/** Channels that LangGraph makes for itself: triggers, joins, waiting `Send`s. */
export function isOwnChannel(name: string): boolean {
  return name.startsWith('__') || name.startsWith('branch:') || name.startsWith('join:');
}

/**
 * Why values don't fit a graph's state, as `path: reason`; undefined when they do. Each has to be a channel of the
 * graph, and, where the state was declared by a schema, to fit it. A channel that held nothing before may go on so,
 * but one that is new in this version must have a value, unless its schema can do without.
 * @param known the channels of the version before.
 */
export async function misfit(
  graph: CompiledGraph,
  values: ChannelValues,
  known: ReadonlySet<string>,
): Promise<string | undefined> {
  const { channels } = partsOf(graph);
  for (const name of Object.keys(values))
    if (isOwnChannel(name) || !(name in channels))
      return `${name}: the graph has no such channel; leave it out of what the migration gives`;
  for (const [name, schema] of Object.entries(schemasOf(graph))) {
    if (!(name in values) && known.has(name)) continue;
    const { issues } = await schema['~standard'].validate(values[name]);
    const [issue] = issues ?? [];
    if (issue) return `${[name, ...(issue.path ?? []).map(keyOf)].join('.')}: ${issue.message}`;
  }
  return undefined;
}

/** The schemas of a StateGraph's channels: of a zod object's fields, or those in a StateSchema. */
function schemasOf(graph: CompiledGraph): Record<string, StandardSchema> {
  const definition: unknown = partsOf(graph).builder?._schemaRuntimeDefinition;
  if (!isObject(definition)) return {};
  const fields = isObject(definition['fields']) ? definition['fields'] : definition['shape'];
  if (!isObject(fields)) return {};
  const schemas: Record<string, StandardSchema> = {};
  for (const [name, field] of Object.entries(fields)) {
    // StateSchema's ReducedValue and DeltaValue have one for the value, and one for what is added to it.
    const schema = isStandard(field)
      ? field
      : isObject(field)
        ? (field['valueSchema'] ?? field['schema'])
        : undefined;
    if (isStandard(schema)) schemas[name] = schema;
  }
  return schemas;
}

function keyOf(part: unknown): string {
  return String(isObject(part) ? part['key'] : part);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return (typeof value === 'object' || typeof value === 'function') && value !== null;
}

function isStandard(value: unknown): value is StandardSchema {
  return (
    isObject(value) && isObject(value['~standard']) && typeof value['~standard']['validate'] === 'function'
  );
}
