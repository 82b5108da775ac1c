import { z } from 'zod';
import { deadlinePolicy, escalation } from './deadlines.ts';
import { graphName, graphVersion, runId, threadId } from './ids.ts';
import { errorRecord, jsonObject, jsonValue } from './json.ts';
import { retryPolicy } from './retry-policy.ts';

/**
 * A run's life. `pending` until a worker takes it, then `running`; `interrupted` is an end of the run, though the
 * thread waits: the answer is a new run. `error` is an error of the graph, never one of the machinery. Newer input
 * ends a run as `interrupted` (what it did stays) or as `rolled_back` (the thread goes back to before it).
 */
export const RUN_STATUSES = [
  'pending',
  'running',
  'success',
  'interrupted',
  'error',
  'cancelled',
  'rolled_back',
] as const;
export const runStatus = z.enum(RUN_STATUSES);
export type RunStatus = z.infer<typeof runStatus>;

export const UNFINISHED: readonly RunStatus[] = ['pending', 'running'];

/** What of LangGraph's RunnableConfig a caller may set. All optional. */
export const runConfig = z.strictObject({
  /** Supersteps before GraphRecursionError. Default 25, as in LangGraph. */
  recursion_limit: z.int().min(1).max(100_000).optional(),
  configurable: jsonObject.optional(),
  context: jsonObject.optional(),
  metadata: jsonObject.optional(),
  tags: z.array(z.string()).optional(),
  /** Nodes to stop before or after, `*` for all. */
  interrupt_before: z.union([z.literal('*'), z.array(z.string())]).optional(),
  interrupt_after: z.union([z.literal('*'), z.array(z.string())]).optional(),
  /** What happens to the run's questions that nobody answers in time. Default: what the graph says, or nothing. */
  deadline: deadlinePolicy.optional(),
  /** Parallel tasks of one superstep at a time. Default: all. */
  max_concurrency: z.int().min(1).optional(),
  /** How failing nodes are tried again, over what the graph and its nodes say. */
  retry: retryPolicy.optional(),
});
export type RunConfig = z.infer<typeof runConfig>;

/**
 * What becomes of new input while the thread is busy. `enqueue` waits its turn; `reject` refuses it; `interrupt` stops
 * the runs that are unfinished and goes on from what they did; `rollback` stops them and goes on from before them.
 */
export const MULTITASK_STRATEGIES = ['enqueue', 'reject', 'interrupt', 'rollback'] as const;
export const multitaskStrategy = z.enum(MULTITASK_STRATEGIES);

/** A request to run a graph on a thread, new or old. */
export const runRequest = z.strictObject({
  graph: graphName,
  /** Default: the thread's own version; for a new thread the newest that this installation knows. */
  version: graphVersion.optional(),
  /** Default: a new thread with a random id. */
  thread_id: threadId.optional(),
  input: jsonValue,
  config: runConfig.optional(),
  /** Default `enqueue`. */
  multitask_strategy: multitaskStrategy.optional(),
  /** Who asks, such as `user:mira`. Default `user:unknown`. */
  actor: z.string().min(1).max(200).optional(),
});
export type RunRequest = z.input<typeof runRequest>;

/**
 * What may happen outside in a branch that a fork began: `recorded` takes known results from the ledger and asks a
 * person before a new effect, `live` runs new effects, `dry` runs none and takes what tools give as their simulation.
 */
export const EFFECTS_MODES = ['recorded', 'live', 'dry'] as const;
export const effectsMode = z.enum(EFFECTS_MODES);
export type EffectsMode = z.infer<typeof effectsMode>;

/** A request to begin a new branch of a thread at one of its checkpoints, of the whole graph or of a subgraph. */
export const forkRequest = z.strictObject({
  checkpoint_id: z.string().min(1).max(200),
  /** What the state is changed by, as a node would return it. Default: nothing, the nodes run again as they did. */
  values: jsonValue.refine((values) => values !== null, 'is null; leave it out to change nothing').optional(),
  /** The node that the change is attributed to. Default: the one that ran last, as in LangGraph's `updateState`. */
  as_node: z
    .string()
    .min(1)
    .refine((name) => name !== '__copy__', "can't be __copy__")
    .optional(),
  /** Default `recorded`. */
  effects: effectsMode.optional(),
  /** The run's settings. Default: those of the run that made the checkpoint. */
  config: runConfig.optional(),
  /** Who asks, such as `user:mira`. Default `user:unknown`. */
  actor: z.string().min(1).max(200).optional(),
});
export type ForkRequest = z.input<typeof forkRequest>;

/** A request to copy a thread. */
export const copyRequest = z.strictObject({
  /** The root checkpoint that the copy stands at. Default: where the thread stands. */
  checkpoint_id: z.string().min(1).max(200).optional(),
  /** The copy's id. Default: a random one. */
  as: threadId.optional(),
  /** What may happen outside in the copy, from then on. Default `recorded`. */
  effects: effectsMode.optional(),
  /** Who asks, such as `user:mira`. Default `user:unknown`. */
  actor: z.string().min(1).max(200).optional(),
});
export type CopyRequest = z.input<typeof copyRequest>;

/** `input` starts from new input, `resume` from answers, `continue` from where the thread stands, `fork` from an older checkpoint; `copy` made the thread. */
export const runKind = z.enum(['input', 'resume', 'continue', 'fork', 'copy']);
export type RunKind = z.infer<typeof runKind>;

/** A failed attempt of a node, after which the run waits for the next one. */
export const runRetry = z.object({ retry_at: z.string(), error: errorRecord });
export type RunRetry = z.infer<typeof runRetry>;

/** A run as it is shown. */
export const runView = z.object({
  run_id: runId,
  thread_id: threadId,
  graph: z.string(),
  version: z.string(),
  kind: runKind,
  status: runStatus,
  error: errorRecord.nullable(),
  /** Where a node failed and is tried again: the newest failure, and when the next attempt begins. */
  retry: runRetry.nullable(),
  attempts: z.int(),
  /** Pending input that waits until it is answered what became of an operation. */
  held: z.boolean(),
  /** The run whose input stopped this one. */
  stopped_by: runId.nullable(),
  created_at: z.string(),
  started_at: z.string().nullable(),
  finished_at: z.string().nullable(),
});
export type RunView = z.infer<typeof runView>;

/** What a person has to answer before the thread goes on. */
export const interruptView = z.object({
  id: z.string(),
  thread_id: threadId,
  run_id: runId,
  /**
   * `interrupt` asks for what `interrupt()` was called with; `operation` asks what became of an effect; `timer` asks
   * nobody: the node sleeps until `due_at`.
   */
  kind: z.enum(['interrupt', 'operation', 'timer']),
  node: z.string(),
  value: jsonValue,
  /** SHA-256 of the question, in hex: names what is approved, so that an answer can be bound to it. */
  digest: z.string(),
  status: z.enum(['pending', 'answered', 'superseded', 'cancelled']),
  answer: jsonValue.nullable(),
  answered_by: z.string().nullable(),
  answered_at: z.string().nullable(),
  /** By which door the answer came, such as `cli:host`. */
  answered_from: z.string().nullable(),
  created_at: z.string(),
  /** When `on_due` happens unless somebody answers first; null: never. */
  due_at: z.string().nullable(),
  /** An answer that is given, a rejection, or to whom it is escalated: a deadline without its `after`. */
  on_due: jsonValue.nullable(),
  /** To whom it was escalated, the first one first. */
  escalations: z.array(escalation),
});
export type InterruptView = z.infer<typeof interruptView>;

/** Something that a run did outside, or may have done (`unknown`, or still `running`). */
export const effectView = z.object({
  operation_id: z.string(),
  node: z.string(),
  tool: z.string(),
  status: z.enum(['running', 'succeeded', 'unknown']),
  args: jsonValue,
});
export type EffectView = z.infer<typeof effectView>;

/** What the strategies `interrupt` and `rollback` did to the runs that were unfinished. */
export const stoppedRuns = z.object({
  /** The run that a worker has in hand; it ends as soon as its worker has heard. Null where there is none. */
  stopping_run: runId.nullable(),
  /** Runs that had not begun; they never will. */
  dropped_runs: z.array(runId),
  /** What the stopping run did outside, or may have done, up to now. That stays, whatever the strategy. */
  effects: z.array(effectView),
});
export type StoppedRuns = z.infer<typeof stoppedRuns>;

/** How a run ended: what `perdure run --json` prints. */
export const runResult = z.object({
  thread_id: threadId,
  run_id: runId,
  graph: z.string(),
  version: z.string(),
  status: runStatus,
  /** The graph's output, when it ended in `success`. */
  values: jsonValue.optional(),
  /** When the checkpoint that held its output was pruned: it has no `values` then. */
  output_pruned_at: z.string().optional(),
  /** What is waited for, when it ended in `interrupted`. Empty for a static interrupt: see `next`. */
  interrupts: z
    .array(interruptView.pick({ id: true, node: true, value: true, kind: true, due_at: true }))
    .optional(),
  /** The nodes that come next, when it ended in `interrupted`. */
  next: z.array(z.string()).optional(),
  error: errorRecord.optional(),
  /** The run whose input stopped this one. */
  stopped_by: runId.optional(),
  /** Of a run that was rolled back: what it did outside, or may have done. That stays. */
  effects: z.array(effectView).optional(),
  /** The runs that this one stopped; said once, to whoever started it. */
  stopped: stoppedRuns.optional(),
});
export type RunResult = z.infer<typeof runResult>;

/** `interrupted` waits for a person, `sleeping` for a time alone. */
export const threadStatus = z.enum(['idle', 'busy', 'interrupted', 'sleeping', 'error']);

export const threadView = z.object({
  thread_id: threadId,
  graph: z.string(),
  version: z.string(),
  status: threadStatus,
  created_at: z.string(),
  updated_at: z.string(),
  /** Questions that a person has to answer. */
  pending_interrupts: z.int(),
  /** When the first of its sleeping nodes wakes. */
  sleeps_until: z.string().nullable(),
  /** Runs that are pending or running, but for those that are held. */
  unfinished_runs: z.int(),
  /** The thread that its line of copies began with, whose id is in the ids of operations; itself where it is no copy. */
  lineage_root: threadId,
  /** The thread that it is a copy of, and the root checkpoint that it was copied at. */
  copied_from: threadId.nullable(),
  copied_at: z.string().nullable(),
  /** Of a thread that was forked: the checkpoint that its branch began at. */
  forked_at: z.string().nullable(),
  /** What may happen outside, where the thread is a copy or was forked. */
  effects: effectsMode.nullable(),
});
export type ThreadView = z.infer<typeof threadView>;
