/**
 * Every error that perdure raises on purpose. `code` is stable and may be matched on; `message` is a sentence
 * that a person can act on; `details` holds the ids involved and is JSON.
 */
export class PerdureError extends Error {
  readonly code: string;
  readonly details: Record<string, unknown>;

  constructor(code: string, message: string, details: Record<string, unknown> = {}, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
    this.code = code;
    this.details = details;
  }
}

/**
 * Thrown by a node or a tool that knows that trying again may help. The runtime tries again, whatever else the error
 * or its cause looks like.
 */
export class RetryableError extends PerdureError {
  readonly retryable = true;
  /** Not before so many ms have passed. */
  readonly retryAfterMs: number | undefined;

  constructor(message: string, options: ErrorOptions & { retryAfterMs?: number } = {}) {
    super('RETRYABLE', message, {}, options);
    this.retryAfterMs = options.retryAfterMs;
  }
}

/** Thrown by a node or a tool that knows that trying again can't help: the thread is blocked until a person acts. */
export class NonRetryableError extends PerdureError {
  readonly retryable = false;

  constructor(message: string, options: ErrorOptions = {}) {
    super('NON_RETRYABLE', message, {}, options);
  }
}

/** A setting is missing or malformed; the message names the variable or the file. */
export class ConfigError extends PerdureError {
  constructor(message: string, details: Record<string, unknown> = {}, options?: ErrorOptions) {
    super('CONFIG_INVALID', message, details, options);
  }
}

/** What was handed in does not fit: an id, an input, an answer. Nothing was changed. */
export class InvalidInputError extends PerdureError {
  constructor(message: string, details: Record<string, unknown> = {}, options?: ErrorOptions) {
    super('INPUT_INVALID', message, details, options);
  }
}

/** No graph of that name (or no such version of it) is known. */
export class UnknownGraphError extends PerdureError {
  constructor(message: string, details: Record<string, unknown> = {}) {
    super('GRAPH_UNKNOWN', message, details);
  }
}

/** A graph's module could not be loaded, or holds no compiled LangGraph graph. */
export class GraphLoadError extends PerdureError {
  constructor(message: string, details: Record<string, unknown> = {}, options?: ErrorOptions) {
    super('GRAPH_LOAD_FAILED', message, details, options);
  }
}

/** A graph changed its shape but kept its version number. */
export class GraphChangedError extends PerdureError {
  constructor(message: string, details: Record<string, unknown> = {}) {
    super('GRAPH_CHANGED', message, details);
  }
}

/** The thread is bound to another graph, or another version, than was asked for. */
export class VersionMismatchError extends PerdureError {
  constructor(message: string, details: Record<string, unknown> = {}) {
    super('VERSION_MISMATCH', message, details);
  }
}

/** No live worker serves that version of the graph, so what needs its code can't be done. */
export class VersionNotServedError extends PerdureError {
  constructor(ref: string, details: Record<string, unknown> = {}) {
    super(
      'VERSION_NOT_SERVED',
      `No worker serves ${ref}. Start one from the code of that version ('perdure up' in its folder) and try again.`,
      details,
    );
  }
}

export class UnknownThreadError extends PerdureError {
  constructor(threadId: string) {
    super('THREAD_UNKNOWN', `No thread '${threadId}' exists. 'perdure threads' lists those that do.`, {
      thread_id: threadId,
    });
  }
}

/** The thread was deleted; nothing is ever written to it again. */
export class ThreadDeletedError extends PerdureError {
  constructor(threadId: string) {
    super('THREAD_DELETED', `Thread '${threadId}' was deleted. Start a new thread under another id.`, {
      thread_id: threadId,
    });
  }
}

/** A new thread was to be made under the id of one that is, or was, there. */
export class ThreadExistsError extends PerdureError {
  constructor(threadId: string) {
    super('THREAD_EXISTS', `A thread '${threadId}' exists, or existed. Choose another id.`, {
      thread_id: threadId,
    });
  }
}

/** The thread has an unfinished run and the new one came with the strategy `reject`. */
export class ThreadBusyError extends PerdureError {
  constructor(threadId: string, runId: string) {
    super(
      'THREAD_BUSY',
      `Thread '${threadId}' is busy with run ${runId}. Wait for it, cancel it, or ask with the strategy 'enqueue'.`,
      { thread_id: threadId, run_id: runId },
    );
  }
}

/** The thread has no root checkpoint of that id. */
export class UnknownCheckpointError extends PerdureError {
  constructor(threadId: string, checkpointId: string) {
    super(
      'CHECKPOINT_UNKNOWN',
      `Thread '${threadId}' has no checkpoint '${checkpointId}'. 'perdure history ${threadId}' lists the ids of those it has.`,
      { thread_id: threadId, checkpoint_id: checkpointId },
    );
  }
}

/** The thread's checkpoints from that time were pruned: this one is among them, or never was. */
export class PrunedCheckpointError extends PerdureError {
  constructor(threadId: string, checkpointId: string, prunedAt: string) {
    super(
      'CHECKPOINT_PRUNED',
      `Checkpoint '${checkpointId}' of thread '${threadId}' is not there: checkpoints from its time were pruned at ${prunedAt}. 'perdure history ${threadId}' lists those that were kept.`,
      { thread_id: threadId, checkpoint_id: checkpointId, pruned_at: prunedAt },
    );
  }
}

export class UnknownRunError extends PerdureError {
  constructor(runId: string) {
    super('RUN_UNKNOWN', `No run '${runId}' exists.`, { run_id: runId });
  }
}

export class UnknownScheduleError extends PerdureError {
  constructor(name: string) {
    super('SCHEDULE_UNKNOWN', `No schedule '${name}' exists. 'perdure schedules' lists those that do.`, {
      name,
    });
  }
}

/** No such interrupt is pending on the thread. `details.pending` lists the ids that are. */
export class UnknownInterruptError extends PerdureError {
  constructor(message: string, details: { thread_id: string; pending: string[] } & Record<string, unknown>) {
    super('INTERRUPT_UNKNOWN', message, details);
  }
}

/** Several interrupts wait and the answer names none. `details.pending` lists their ids. */
export class AmbiguousInterruptError extends PerdureError {
  constructor(threadId: string, pending: string[]) {
    super(
      'INTERRUPT_AMBIGUOUS',
      `Thread '${threadId}' has ${pending.length} pending interrupts; say which one you answer: ${pending.join(', ')}`,
      { thread_id: threadId, pending },
    );
  }
}

/** The question is not the one that was looked at: it has another digest. Nothing was changed. */
export class StaleApprovalError extends PerdureError {
  constructor(threadId: string, interruptId: string, digests: { given: string; digest: string }) {
    super(
      'APPROVAL_STALE',
      `Interrupt ${interruptId} of thread '${threadId}' asks something else than what you looked at: its digest is ${digests.digest}, not ${digests.given}. Look again: perdure approvals`,
      { thread_id: threadId, interrupt_id: interruptId, ...digests },
    );
  }
}

/** Somebody else answered first. `details` holds who, when and with what. */
export class AlreadyAnsweredError extends PerdureError {
  constructor(
    message: string,
    details: {
      thread_id: string;
      interrupt_id: string;
      answer: unknown;
      answered_by: string;
      answered_at: string;
    },
  ) {
    super('INTERRUPT_ALREADY_ANSWERED', message, details);
  }
}

/** The thread is not blocked by an error, so there is nothing to try again. */
export class NothingToRetryError extends PerdureError {
  constructor(threadId: string, status: string, why: string) {
    super('NOTHING_TO_RETRY', `Thread '${threadId}' has nothing to retry: ${why}.`, {
      thread_id: threadId,
      status,
    });
  }
}

/** A newer attempt holds the thread, so this one may not write any more. */
export class StaleFenceError extends PerdureError {
  constructor(threadId: string, details: Record<string, unknown> = {}) {
    super('FENCE_STALE', `A newer attempt holds thread '${threadId}'; this one may no longer write to it.`, {
      thread_id: threadId,
      ...details,
    });
  }
}

/** The checkpoint to be written was not made from the thread's newest one. */
export class ParentCheckpointError extends PerdureError {
  constructor(threadId: string, details: Record<string, unknown> = {}) {
    super(
      'CHECKPOINT_PARENT_STALE',
      `Thread '${threadId}' has moved on: the checkpoint was made from one that is no longer the newest.`,
      { thread_id: threadId, ...details },
    );
  }
}

/** A node took longer than its policy allows, and was stopped. */
export class NodeTimeoutError extends PerdureError {
  constructor(node: string, timeoutMs: number) {
    super(
      'NODE_TIMEOUT',
      `Node '${node}' took longer than the ${timeoutMs} ms that its startToCloseTimeout allows, and was stopped.`,
      { node, timeout_ms: timeoutMs },
    );
  }
}

/** A value can't be stored so that it comes back equal. `details` has `channel` and `path`. */
export class UnserializableValueError extends PerdureError {
  constructor(channel: string, path: string, reason: string) {
    super('VALUE_UNSERIALIZABLE', `Channel '${channel}' at ${path || '(the value itself)'}: ${reason}`, {
      channel,
      path,
    });
  }
}

/** Postgres can't be reached, or went away. Whatever was under way may be tried again. */
export class StorageUnavailableError extends PerdureError {
  constructor(message: string, details: Record<string, unknown> = {}, options?: ErrorOptions) {
    super('STORAGE_UNAVAILABLE', message, details, options);
  }
}

/** Temporal can't be reached. What was asked is recorded and will run once it can be. */
export class TemporalUnavailableError extends PerdureError {
  constructor(message: string, details: Record<string, unknown> = {}, options?: ErrorOptions) {
    super('TEMPORAL_UNAVAILABLE', message, details, options);
  }
}

/** The same operation was asked for with other arguments. */
export class OperationConflictError extends PerdureError {
  constructor(operationId: string, details: Record<string, unknown> = {}) {
    super(
      'OPERATION_CONFLICT',
      `Operation '${operationId}' was already recorded with other arguments; it was not run again.`,
      { operation_id: operationId, ...details },
    );
  }
}

/** It can't be known whether the operation's effect happened, so a person has to say. */
export class OperationUnknownError extends PerdureError {
  constructor(operationId: string, details: Record<string, unknown> = {}) {
    super(
      'OPERATION_UNKNOWN',
      `It is not known whether operation '${operationId}' took effect. Look on the far side, then say so: ` +
        `perdure operations resolve ${operationId} --happened JSON, or --retry`,
      { operation_id: operationId, ...details },
    );
  }
}

export class UnknownOperationError extends PerdureError {
  constructor(operationId: string) {
    super('OPERATION_UNKNOWN_ID', `No operation '${operationId}' is recorded.`, {
      operation_id: operationId,
    });
  }
}

export class UnknownArtifactError extends PerdureError {
  constructor(artifactId: string) {
    super(
      'ARTIFACT_UNKNOWN',
      `No artifact '${artifactId}' exists. 'perdure artifacts list' lists those that do.`,
      {
        artifact_id: artifactId,
      },
    );
  }
}

/** The artifact is on record but can't be read: the code says whether it is pending, quarantined or erased. */
export class ArtifactUnavailableError extends PerdureError {
  constructor(artifactId: string, status: 'pending' | 'quarantined' | 'erased') {
    const why = {
      pending: 'its upload is not complete. Wait for it, or upload it again',
      quarantined: 'it was put in quarantine. Upload the bytes again, or erase it',
      erased: 'it was erased, and its bytes are gone for good',
    };
    super(`ARTIFACT_${status.toUpperCase()}`, `Artifact '${artifactId}' can't be read: ${why[status]}.`, {
      artifact_id: artifactId,
      status,
    });
  }
}

/** The bytes of an artifact are not those that were put in. `details` has `problem`, and what was found. */
export class ArtifactCorruptError extends PerdureError {
  constructor(
    artifactId: string,
    problem: 'missing' | 'size' | 'sha256' | 'reference',
    details: Record<string, unknown> = {},
  ) {
    const what = {
      missing: 'its bytes are gone from the storage',
      size: 'it has another size than was put in',
      sha256: 'its bytes are not those that were put in',
      reference: 'the reference names another content than is on record',
    };
    super(
      'ARTIFACT_CORRUPT',
      `Artifact '${artifactId}' is corrupt: ${what[problem]}. Bring the bytes back from a backup, or upload them again.`,
      { artifact_id: artifactId, problem, ...details },
    );
  }
}

/** The folder or bucket of artifacts can't be reached or written. What was under way may be tried again. */
export class ArtifactStorageError extends PerdureError {
  constructor(message: string, options?: ErrorOptions) {
    super('ARTIFACT_STORAGE_UNAVAILABLE', message, {}, options);
  }
}

/** Whether `error` is one of ours, whichever copy of the package made it. */
export function isPerdureError(error: unknown, code?: string): error is PerdureError {
  return (
    error instanceof Error &&
    'code' in error &&
    typeof error.code === 'string' &&
    'details' in error &&
    typeof error.details === 'object' &&
    (code === undefined || error.code === code)
  );
}
