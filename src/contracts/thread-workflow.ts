/**
 * What the thread workflow and its activities say to each other. No schemas here: this file goes into the
 * workflow bundle.
 */

/** Temporal's names for them. They are in recorded histories: never rename. */
export const THREAD_WORKFLOW = 'thread';
export const WAKE_SIGNAL = 'wake';
export const CANCEL_SIGNAL = 'cancel';

/** Arguments of the thread workflow, and what it carries over when it continues as new. */
export type ThreadWorkflowArgs = {
  tenant_id: string;
  thread_id: string;
  graph: string;
  version: string;
  /** What the workflow knew when it continued as new. */
  carried?: CarriedOver;
};

export type CarriedOver = {
  /** Ids of runs that were announced and are not known to have ended. */
  announced: string[];
  /** Whether further runs wait in Postgres. */
  more: boolean;
  /** Whether the thread waits for a person. */
  waiting: boolean;
  /** Tasks that the next segment has to be told of. */
  failed?: FailedTasks;
  /** When the next thing is due, in ISO 8601. */
  next_due?: string | null;
};

export type AdvanceRequest = {
  tenant_id: string;
  thread_id: string;
  graph: string;
  version: string;
  /** Tasks of the superstep in hand that are not tried again: the run ends in `error`. */
  failed?: FailedTasks;
  /** The one task that this segment runs itself, since it runs in that task's activity. */
  own_task?: OwnTask;
};

export type OwnTask = { run_id: string; checkpoint_id: string; task_id: string; node: string };

export type FailedTasks = { run_id: string; tasks: FailedTask[] };

/** What Temporal says of it; where the task's own attempt recorded the error, that counts instead. */
export type FailedTask = { task_id: string; name: string; message: string };

/**
 * How one segment ended. `idle`: no run was waiting. `handed_over`: a run is not finished, but its worker drains
 * or its time budget is spent. `tasks`: tasks of its next superstep have to run as activities first. `retry`: a node
 * failed and is tried again later. The others are the run's own end.
 */
export type AdvanceOutcome =
  | 'idle'
  | 'handed_over'
  | 'tasks'
  | 'retry'
  | 'success'
  | 'interrupted'
  | 'error'
  | 'cancelled'
  | 'rolled_back';

export type AdvanceResult = {
  outcome: AdvanceOutcome;
  run_id: string | null;
  /** Whether further runs of the thread wait. Left out where not: it is in every history. */
  more?: boolean;
  /** Whether the thread now waits for a person. Left out where not. */
  waiting?: boolean;
  /** After `retry`: how long from now until the next attempt, in ms. */
  retry_in_ms?: number;
  /** With the outcome `tasks`. */
  due?: DueTasks;
  /** Tasks that the next segment has to be told of. Set by the workflow itself. */
  failed?: FailedTasks;
  /** When the next of its deadlines and timers is due, in ISO 8601. Only where none of its runs is unfinished. */
  next_due?: string | null;
};

/** Tasks of one superstep that are to run as activities now; there may be more, which the next segment gives. */
export type DueTasks = {
  checkpoint_id: string;
  /** The fence of the segment that handed them out: once a newer one is taken, they can't write. */
  fence: number;
  tasks: DueTask[];
  /** How the tasks of each node run, by its name. */
  options: Record<string, TaskOptions>;
  /** Tasks that run at once, of all nodes. */
  concurrency: number;
  /** There is but one, and none is left beside it: the activity that runs it goes on with the thread. */
  alone: boolean;
};

/** `tool` is the name of the tool that it calls, where it is known to call one. */
export type DueTask = { task_id: string; node: string; tool?: string };

/** Durations in ms. */
export type TaskOptions = {
  task_queue?: string;
  start_to_close?: number;
  schedule_to_start?: number;
  heartbeat?: number;
  /** Tasks of the node that run at once. */
  concurrency: number;
};

export type RunTaskRequest = {
  tenant_id: string;
  thread_id: string;
  graph: string;
  version: string;
  run_id: string;
  checkpoint_id: string;
  fence: number;
  task_id: string;
  node: string;
  /** Whether the activity goes on with the thread after the task. */
  alone: boolean;
};

/**
 * How one task ended: `done` and `interrupted` are stored; `handed_back` was not run, since its worker drains;
 * `overtaken` found a newer segment on the thread, or a newer attempt on the task. Where it was alone: how the segment
 * ended that ran it.
 */
export type RunTaskResult = { task: TaskOutcome } | AdvanceResult;
export type TaskOutcome = 'done' | 'interrupted' | 'cancelled' | 'handed_back' | 'overtaken';

/** Type of the ApplicationFailure of a task whose node failed. Its details may hold the AdvanceResult. */
export const NODE_FAILURE = 'NodeFailed';

export type DueRequest = { tenant_id: string; thread_id: string };

export type DueResult = {
  /** Whether runs wait, such as one that carries an answer that was due. */
  more: boolean;
  next_due: string | null;
};

export type ThreadActivities = {
  /** Which thread, and at which version, the workflow's id and its task queue say. */
  advanceThread(call?: Pick<AdvanceRequest, 'failed'>): Promise<AdvanceResult>;
  runTask(request: RunTaskRequest): Promise<RunTaskResult>;
  /** Does what is due on the thread: see docs/time.md. */
  fireDue(request: DueRequest): Promise<DueResult>;
};

/** What a segment's heartbeat tells. */
export type SegmentHeartbeat = { run_id: string; checkpoint_id: string | null; step: number | null };
