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
};

export type AdvanceRequest = {
  tenant_id: string;
  thread_id: string;
  graph: string;
  version: string;
};

/**
 * How one segment ended. `idle`: no run was waiting. `handed_over`: a run is not finished, but its worker drains
 * or its time budget is spent. `retry`: a node failed and is tried again later. The others are the run's own end.
 */
export type AdvanceOutcome =
  'idle' | 'handed_over' | 'retry' | 'success' | 'interrupted' | 'error' | 'cancelled' | 'rolled_back';

export type AdvanceResult = {
  outcome: AdvanceOutcome;
  run_id: string | null;
  /** Whether further runs of the thread wait. */
  more: boolean;
  /** Whether the thread now waits for a person. */
  waiting: boolean;
  /** After `retry`: how long from now until the next attempt, in ms. */
  retry_in_ms?: number;
};

export type ThreadActivities = {
  advanceThread(request: AdvanceRequest): Promise<AdvanceResult>;
};

/** What a segment's heartbeat tells. */
export type SegmentHeartbeat = { run_id: string; checkpoint_id: string | null; step: number };
