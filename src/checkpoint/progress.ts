import type { Checkpoint, CheckpointTuple, PendingWrite } from '@langchain/langgraph-checkpoint';
import { INTERRUPT, RESUME } from '@langchain/langgraph-checkpoint';
import type { Attempt, InterruptOrigin } from './attempt.ts';

const NULL_TASK_ID = '00000000-0000-0000-0000-000000000000';
/** What a task writes about itself, rather than as its result. */
const NOT_RESULTS = new Set(['__error__', '__error_source_node__', INTERRUPT, RESUME, '__scheduled__']);
/** Where a `task` of the functional API, which nobody planned, puts its result. */
const RETURN = '__return__';

type Superstep = {
  checkpointId: string;
  /** The names of its tasks. */
  planned: string[];
  done: Set<string>;
  /** Channels that hold a value; a DeltaChannel holds none. */
  values: Readonly<Record<string, unknown>>;
  /** Whether the graph has a DeltaChannel. */
  hasDelta: boolean;
};

/** Where an attempt stands on its thread, from what it loaded and made. */
export class Progress {
  readonly #attempt: Attempt;
  readonly #steps = new Map<string, { checkpointId: string; step: number }>();
  #superstep: Superstep | undefined;
  #begun = false;
  readonly asked = new Map<string, InterruptOrigin>();

  constructor(attempt: Attempt) {
    this.#attempt = attempt;
  }

  stepOf(ns: string): number | undefined {
    const newest = this.#steps.get(ns);
    return newest && newest.step + 1;
  }

  loaded(ns: string, tuple: CheckpointTuple): void {
    const { checkpoint, metadata, pendingWrites } = tuple;
    if (ns === '') {
      const start = this.#begun ? undefined : this.#attempt.forkFrom;
      if (start !== undefined && checkpoint.id !== start) return;
      if (this.#superstep && this.#superstep.checkpointId >= checkpoint.id) return;
      const planned = this.#attempt.nextNodes(checkpoint, checkpoint.channel_values);
      this.#superstep = superstep(checkpoint, metadata, planned);
      for (const [taskId, channel] of pendingWrites ?? [])
        if (isResult(taskId, channel)) this.#superstep.done.add(taskId);
    }
    this.#noteStep(ns, checkpoint.id, metadata?.step);
  }

  /** A checkpoint is about to be stored; its superstep begins. */
  made(ns: string, checkpoint: Checkpoint, metadata: { step?: number } | undefined, planned: string[]): void {
    if (ns === '') {
      this.#begun = true;
      this.#superstep = superstep(checkpoint, metadata, planned);
    }
    this.#noteStep(ns, checkpoint.id, metadata?.step);
  }

  #noteStep(ns: string, checkpointId: string, step: number | undefined): void {
    const known = this.#steps.get(ns);
    if (step !== undefined && (!known || known.checkpointId <= checkpointId))
      this.#steps.set(ns, { checkpointId, step });
  }

  /**
   * Notes the writes of a task.
   * @returns whether they complete the superstep, so that a checkpoint follows at once.
   */
  wrote(ns: string, checkpointId: string, writes: readonly PendingWrite[], taskId: string): boolean {
    this.#noteQuestions(ns, checkpointId, writes, taskId);
    const current = this.#superstep;
    if (ns !== '' || current?.checkpointId !== checkpointId) return false;
    if (
      !writes.some(([channel]) => isResult(taskId, channel)) ||
      writes.some(([channel]) => channel === RETURN)
    )
      return false;
    current.done.add(taskId);
    if (current.done.size !== current.planned.length) return false;
    return writes.every(([channel]) => !NOT_RESULTS.has(channel) && !isDelta(current, channel));
  }

  /** An interrupt bubbles up through the graphs around it: the innermost task that wrote it asked. */
  #noteQuestions(ns: string, checkpointId: string, writes: readonly PendingWrite[], taskId: string): void {
    for (const [channel, value] of writes) {
      if (channel !== INTERRUPT) continue;
      for (const id of interruptIds(value)) {
        const known = this.asked.get(id);
        if (!known || ns.length >= known.checkpointNs.length)
          this.asked.set(id, { checkpointNs: ns, checkpointId, taskId });
      }
    }
  }
}

/** The ids in the value of an INTERRUPT write. */
export function interruptIds(value: unknown): string[] {
  const interrupts: unknown[] = Array.isArray(value) ? value : [value];
  return interrupts.flatMap((one) =>
    typeof one === 'object' && one !== null && 'id' in one && typeof one.id === 'string' ? [one.id] : [],
  );
}

/** Whether the write is a result of a task, rather than of the run as a whole or about the task. */
export function isResult(taskId: string, channel: string): boolean {
  return taskId !== NULL_TASK_ID && !NOT_RESULTS.has(channel);
}

function superstep(checkpoint: Checkpoint, metadata: object | undefined, planned: string[]): Superstep {
  return {
    checkpointId: checkpoint.id,
    planned,
    done: new Set(),
    values: checkpoint.channel_values,
    hasDelta:
      metadata !== undefined &&
      ('delta_writes_versioned' in metadata || 'counters_since_delta_snapshot' in metadata),
  };
}

/**
 * LangGraph puts a checkpoint only after the writes to DeltaChannels are stored, so those can't wait for it. In a
 * graph that has some, a channel without a plain value is taken for one, `branch:to:…` triggers aside.
 */
function isDelta({ hasDelta, values }: Superstep, channel: string): boolean {
  if (!hasDelta || channel.startsWith('branch:to:') || channel.startsWith('__')) return false;
  const value = values[channel];
  return (
    value === undefined ||
    (typeof value === 'object' && value !== null && 'lg_name' in value && value.lg_name === 'DeltaSnapshot')
  );
}
