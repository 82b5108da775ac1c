import { z } from 'zod';

/** The tenant of an installation that has only one. */
export const DEFAULT_TENANT = 'default';

/** The longest thread id, in UTF-16 units. Its encoded form has to fit Temporal's workflow id (1,000 bytes). */
export const MAX_THREAD_ID = 255;
const MAX_ENCODED = 700;

function wellFormed(text: string): boolean {
  return (
    !text.includes('\u0000') &&
    !/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/.test(text)
  );
}

function identifier(what: string, max: number) {
  return z
    .string()
    .min(1, `a ${what} can't be empty`)
    .max(max, `a ${what} has at most ${max} characters`)
    .refine(wellFormed, `a ${what} can't hold NUL or half a surrogate pair`)
    .refine(
      (text) => !wellFormed(text) || encodeURIComponent(text).length <= MAX_ENCODED,
      `this ${what} is too long once encoded`,
    );
}

export const threadId = identifier('thread id', MAX_THREAD_ID);
export const tenantId = identifier('tenant id', 100);
export const graphName = z
  .string()
  .regex(
    /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/,
    "a graph's name has letters, digits, '.', '_' and '-', at most 100",
  );
export const graphVersion = z
  .string()
  .regex(
    /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/,
    "a graph's version has letters, digits, '.', '_' and '-', at most 64",
  );
export const runId = z.uuid();

/** `refund-flow@17`: a graph at one version. Also the `graph_version` in checkpoint metadata. */
export function graphRef(graph: string, version: string): string {
  return `${graph}@${version}`;
}

/**
 * Names in Temporal. An installation is a Postgres schema; `perdure`, the default, adds no prefix, so that
 * several installations can share one Temporal namespace.
 */
function installationPrefix(schema: string): string {
  return schema === 'perdure' ? '' : `${encodeURIComponent(schema)}/`;
}

/** The workflow that is the only writer of the thread. Distinct for every pair of ids, whatever is in them. */
export function threadWorkflowId(schema: string, tenant: string, thread: string): string {
  return `${threadWorkflowPrefix(schema)}${encodeURIComponent(tenant)}/${encodeURIComponent(thread)}`;
}

/** What the ids of an installation's thread workflows begin with. */
export function threadWorkflowPrefix(schema: string): string {
  return `${installationPrefix(schema)}thread/`;
}

/** The thread of a workflow; undefined for an id that is none of the installation's threads. */
export function parseThreadWorkflowId(
  schema: string,
  workflowId: string,
): { tenant_id: string; thread_id: string } | undefined {
  const prefix = threadWorkflowPrefix(schema);
  const [tenant, thread, ...more] = workflowId.startsWith(prefix)
    ? workflowId.slice(prefix.length).split('/')
    : [];
  if (tenant === undefined || thread === undefined || more.length > 0) return undefined;
  return { tenant_id: decodeURIComponent(tenant), thread_id: decodeURIComponent(thread) };
}

/** The reverse of {@link threadWorkflowId}. @throws Error when it is no thread's. */
export function ofThreadWorkflowId(id: string): { tenant_id: string; thread_id: string } {
  const [kind, tenant, thread] = id.split('/').slice(-3);
  if (kind !== 'thread' || tenant === undefined || thread === undefined)
    throw new Error(`'${id}' is not the id of a thread's workflow.`);
  return { tenant_id: decodeURIComponent(tenant), thread_id: decodeURIComponent(thread) };
}

/** The workflow that moves some threads to another version. */
export function migrateWorkflowId(schema: string, graph: string, version: string, id: string): string {
  return `${installationPrefix(schema)}migrate/${graphRef(graph, version)}/${id}`;
}

/** The task queue that every worker of the installation serves, whatever its graphs. */
export function controlTaskQueue(schema: string): string {
  return `${installationPrefix(schema)}control`;
}

/** The Temporal Schedule behind a schedule. */
export function temporalScheduleId(schema: string, tenant: string, name: string): string {
  return `${installationPrefix(schema)}schedule/${encodeURIComponent(tenant)}/${encodeURIComponent(name)}`;
}

/** The task queue of one version of one graph. */
export function graphTaskQueue(schema: string, graph: string, version: string): string {
  return `${installationPrefix(schema)}${graphRef(graph, version)}`;
}

/** The reverse of {@link graphTaskQueue}. @throws Error when it is no graph's. */
export function ofGraphTaskQueue(queue: string): { graph: string; version: string } {
  const [graph, version] = queue.split('/').at(-1)?.split('@') ?? [];
  if (graph === undefined || version === undefined)
    throw new Error(`'${queue}' is not the task queue of a graph's version.`);
  return { graph, version };
}

/** The task queue that a node's policy names, for one version of one graph. */
export function nodeTaskQueue(schema: string, graph: string, version: string, queue: string): string {
  return `${graphTaskQueue(schema, graph, version)}/${queue}`;
}

/** The name of the branch that a run begins. */
export function branchId(run: string): string {
  return run.replaceAll('-', '').slice(0, 12);
}

/** The key under which LangGraph's checkpoint tables, which have no tenant, hold a thread. */
export function checkpointThreadId(tenant: string, thread: string): string {
  return tenant === DEFAULT_TENANT && !thread.startsWith('tenant:')
    ? thread
    : `tenant:${encodeURIComponent(tenant)}/${thread}`;
}
