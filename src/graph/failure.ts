import { toErrorRecord, type ErrorRecord } from '../contracts/json.ts';
import { backoff, mergeRetry, type FullRetryPolicy } from '../contracts/retry-policy.ts';
import type { RunConfig } from '../contracts/runs.ts';
import type { RetryState } from '../threads/postpone-run.ts';
import type { ClaimedRun } from '../threads/segment.ts';
import type { CompiledGraph } from './define-graph.ts';
import { classifyError, type ErrorClass, type ErrorReason } from './error-mapper.ts';
import type { LoadedGraph } from './load-graphs.ts';

export type Retry = { state: RetryState; delayMs: number };

/** What became of a failed segment: another attempt, or the run's end. */
export type Failure = { error: ErrorRecord; retry: Retry | undefined };

/** Pauses are up to that much longer, so that threads that failed together don't come back together. */
const JITTER = 0.1;

/** Decides whether the nodes that failed are tried again, by their errors, policies and the attempts so far. */
export async function judgeFailure(parts: {
  definition: LoadedGraph;
  /** With the attempt's saver. */
  graph: CompiledGraph;
  threadId: string;
  run: ClaimedRun;
  head: string | null;
  error: unknown;
}): Promise<Failure> {
  const { run, head } = parts;
  const places = await failedPlaces(parts.graph, run.checkpoint_thread_id, parts.error);
  const before = run.retry?.checkpoint_id === head ? run.retry.failed : {};
  const judged = places.map((place) => {
    const attempts = (before[place.task] ?? 0) + 1;
    const found = classifyError(place.error);
    const policy = policyOf(parts.definition, place.node?.split('|')[0], run.config);
    return { place, attempts, found, policy, pause: pauseOf(found, policy, attempts) };
  });
  const final = judged.find(({ pause }) => pause === undefined);
  const shown = final ?? judged[0];
  const record: ErrorRecord = {
    ...toErrorRecord(shown === undefined ? parts.error : shown.place.error),
    ...(shown?.place.node === undefined ? {} : { node: shown.place.node }),
    attempts: shown?.attempts ?? 1,
    reason: shown?.found.reason ?? 'unclassified',
  };
  if (final !== undefined)
    return {
      error: { ...record, hint: hint(final.found, final.attempts, parts.threadId) },
      retry: undefined,
    };
  const state: RetryState = {
    checkpoint_id: head,
    failed: { ...before, ...Object.fromEntries(judged.map(({ place, attempts }) => [place.task, attempts])) },
    error: record,
  };
  const delayMs = jittered(Math.max(...judged.map(({ pause }) => pause ?? 0)));
  return { error: record, retry: { state, delayMs } };
}

/** The same for one task that ran on its own; `delayMs` is undefined when it is not tried again. */
export function judgeTask(parts: {
  definition: LoadedGraph;
  config: RunConfig;
  threadId: string;
  node: string;
  error: unknown;
  /** How many attempts have failed, this one included. */
  attempts: number;
}): { error: ErrorRecord; delayMs: number | undefined } {
  const { node, attempts } = parts;
  const found = classifyError(parts.error);
  const pause = pauseOf(found, policyOf(parts.definition, node, parts.config), attempts);
  const error: ErrorRecord = { ...toErrorRecord(parts.error), node, attempts, reason: found.reason };
  if (pause !== undefined) return { error, delayMs: jittered(pause) };
  return { error: { ...error, hint: hint(found, attempts, parts.threadId) }, delayMs: undefined };
}

/** A node's own policy comes over the graph's, and the run's over both. What is inside a node goes by that node's. */
function policyOf(definition: LoadedGraph, node: string | undefined, config: RunConfig): FullRetryPolicy {
  const own = definition.nodes?.[node?.split('|')[0] ?? '']?.retry;
  return mergeRetry(definition.retry, own, config.retry);
}

function jittered(pause: number): number {
  return Math.ceil(pause * (1 + Math.random() * JITTER));
}

/** Undefined when it is not tried again. */
function pauseOf(found: ErrorClass, policy: FullRetryPolicy, attempts: number): number | undefined {
  if (!found.retryable || attempts >= policy.maximumAttempts) return undefined;
  if ((found.retryAfterMs ?? 0) > policy.maximumRetryAfter) return undefined;
  return Math.max(backoff(policy, attempts), found.retryAfterMs ?? 0);
}

const WHAT_TO_DO: Readonly<Partial<Record<ErrorReason, string>>> = {
  bug: 'This is an error of the code. Fix it and restart the workers',
  refused: 'What was sent was refused, and would be again. Correct it',
  unauthorized: 'Access was refused. Correct the credentials and restart the workers',
  quota: 'A quota is used up. Raise it',
  limit: 'The graph took as many steps as it may. Look whether it goes round in circles',
  cancelled: 'The node called its own work off',
  marked: 'The node says that trying again does not help. Remove the cause',
};

function hint(found: ErrorClass, attempts: number, threadId: string): string {
  const first =
    (found.retryable ? undefined : WHAT_TO_DO[found.reason]) ??
    (found.retryAfterMs === undefined
      ? `It failed ${attempts === 1 ? 'once, and the policy allows no more' : `${attempts} times`}. Wait until the cause is gone`
      : `The far side asks to be left alone for ${Math.ceil(found.retryAfterMs / 1_000)} s. Wait that long`);
  return `${first}, then go on from the last checkpoint: perdure retry ${threadId}`;
}

type Place = { task: string; node: string | undefined; error: unknown };

/** The tasks that failed, as deep inside subgraphs as it can be told. One of no task stands for an error outside of any. */
async function failedPlaces(graph: CompiledGraph, threadId: string, error: unknown): Promise<Place[]> {
  const errors = taskErrors(error);
  if (errors.length === 0) return [{ task: '', node: undefined, error }];
  return Promise.all(
    errors.map(async ({ task, error: own }) => {
      const found = await deepest(graph, threadId, task);
      return { task: found?.id ?? task, node: found?.path, error: own };
    }),
  );
}

/** LangGraph throws the error of the one task that failed, or several in one; each carries its task's id. */
function taskErrors(error: unknown): { task: string; error: unknown }[] {
  if (typeof error !== 'object' || error === null) return [];
  if ('pregelTaskId' in error && typeof error.pregelTaskId === 'string')
    return [{ task: error.pregelTaskId, error }];
  return error instanceof AggregateError ? error.errors.flatMap((each) => taskErrors(each)) : [];
}

type Task = { id: string; name: string; error?: unknown; result?: unknown };

/** LangGraph shows no state of a subgraph whose task has failed, so each level is asked for by its namespace. */
async function deepest(
  graph: CompiledGraph,
  threadId: string,
  id: string,
): Promise<{ id: string; path: string } | undefined> {
  let failed: (task: Task) => boolean = (task) => task.id === id;
  let found: { id: string; path: string; ns: string } | undefined;
  for (;;) {
    const above = found;
    if (above !== undefined && !(await hasSubgraph(graph, above.path))) return above;
    const tasks: Task[] = await tasksAt(graph, threadId, above?.ns ?? '');
    const task = tasks.find(failed);
    if (task === undefined) return above;
    const under = (prefix: string | undefined, name: string) =>
      prefix === undefined ? name : `${prefix}|${name}`;
    found = {
      id: task.id,
      path: under(above?.path, task.name),
      ns: under(above?.ns, `${task.name}:${task.id}`),
    };
    failed = ({ error, result }) => error !== undefined && result === undefined;
  }
}

async function tasksAt(graph: CompiledGraph, threadId: string, checkpointNs: string): Promise<Task[]> {
  const state = await graph.getState({
    configurable: { thread_id: threadId, ...(checkpointNs === '' ? {} : { checkpoint_ns: checkpointNs }) },
  });
  return state.tasks;
}

/** Whether the node at a path (`outer|inner`) is a graph that keeps checkpoints. */
async function hasSubgraph(graph: CompiledGraph, path: string): Promise<boolean> {
  let at = graph;
  for (const name of path.split('|')) {
    let inner: CompiledGraph | undefined;
    for await (const [, subgraph] of at.getSubgraphsAsync(name)) inner ??= subgraph as CompiledGraph;
    if (inner === undefined || inner.checkpointer === false) return false;
    at = inner;
  }
  return true;
}
