import {
  isGrpcServiceError,
  ServiceError,
  WorkflowExecutionAlreadyStartedError,
  WorkflowNotFoundError,
  type Client,
} from '@temporalio/client';
import type { TypedSearchAttributes } from '@temporalio/common';
import { TemporalUnavailableError } from '../contracts/errors.ts';
import { graphTaskQueue, threadWorkflowId } from '../contracts/ids.ts';
import {
  CANCEL_SIGNAL,
  THREAD_WORKFLOW,
  WAKE_SIGNAL,
  type ThreadWorkflowArgs,
} from '../contracts/thread-workflow.ts';
import { faultPoint } from '../telemetry/fault-points.ts';
import { doWithoutSearchAttributes, searchAttributesOf } from './search-attributes.ts';

/** How long Temporal waits for a worker that took one of its tasks and died. Such a task takes milliseconds. */
const TASK_TIMEOUT = '5 seconds';

/** gRPC's number for it. */
const INVALID_ARGUMENT = 3;

/** The thread whose workflow is to be told of a run. */
export type WakeTarget = {
  schema: string;
  tenant_id: string;
  thread_id: string;
  graph: string;
  version: string;
};

/**
 * Tells the thread's workflow of a run, and starts the workflow where none is open. Harmless to repeat.
 * @throws TemporalUnavailableError; the run is recorded and the sweeper tells again.
 */
export async function wakeThread(temporal: Client, target: WakeTarget, runId: string): Promise<void> {
  await signalWithStart(temporal, target, WAKE_SIGNAL, runId);
}

/** Tells the thread's workflow that a running run is to be cancelled. */
export async function signalCancel(temporal: Client, target: WakeTarget, runId: string): Promise<void> {
  await signalWithStart(temporal, target, CANCEL_SIGNAL, runId);
}

async function signalWithStart(
  temporal: Client,
  target: WakeTarget,
  signal: string,
  runId: string,
): Promise<void> {
  const { schema, tenant_id, thread_id, graph, version } = target;
  const args: ThreadWorkflowArgs = { tenant_id, thread_id, graph, version };
  faultPoint('wake:recorded');
  const attributes = await searchAttributesOf(temporal, target);
  const send = (typedSearchAttributes: TypedSearchAttributes | undefined) =>
    temporal.workflow.signalWithStart(THREAD_WORKFLOW, {
      workflowId: threadWorkflowId(schema, tenant_id, thread_id),
      taskQueue: graphTaskQueue(schema, graph, version),
      args: [args],
      signal,
      signalArgs: [runId],
      workflowTaskTimeout: TASK_TIMEOUT,
      staticSummary: `${graph}@${version}, thread ${thread_id}`.slice(0, 200),
      staticDetails: `Thread \`${thread_id}\` of tenant \`${tenant_id}\`. Its state is in Postgres: \`perdure thread ${thread_id}\``,
      ...(typedSearchAttributes ? { typedSearchAttributes } : {}),
    });
  try {
    try {
      await send(attributes);
    } catch (error) {
      const cause: unknown = error instanceof ServiceError ? error.cause : error;
      const code: number = isGrpcServiceError(cause) ? cause.code : -1;
      if (!attributes || code !== INVALID_ARGUMENT) throw error;
      doWithoutSearchAttributes(temporal);
      await send(undefined);
    }
    faultPoint('wake:signalled');
  } catch (error) {
    if (error instanceof WorkflowExecutionAlreadyStartedError) return;
    throw temporalError(error);
  }
}

/** Whether the thread's workflow is open. */
export async function isAwake(temporal: Client, target: WakeTarget): Promise<boolean> {
  try {
    const handle = temporal.workflow.getHandle(
      threadWorkflowId(target.schema, target.tenant_id, target.thread_id),
    );
    return (await handle.describe()).status.name === 'RUNNING';
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return false;
    throw temporalError(error);
  }
}

/**
 * Ends the thread's workflow if it sits on the task queue of another version: whatever it knows is in Postgres too.
 * @returns whether it did.
 * @throws TemporalUnavailableError
 */
export async function endOnOtherQueue(temporal: Client, target: WakeTarget): Promise<boolean> {
  const { schema, tenant_id, thread_id, graph, version } = target;
  const workflowId = threadWorkflowId(schema, tenant_id, thread_id);
  try {
    const { status, taskQueue, runId } = await temporal.workflow.getHandle(workflowId).describe();
    if (status.name !== 'RUNNING' || taskQueue === graphTaskQueue(schema, graph, version)) return false;
    // That very one: by now another may be open in its place.
    await temporal.workflow.getHandle(workflowId, runId).terminate(`the thread is under ${graph}@${version}`);
    return true;
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return false;
    throw temporalError(error);
  }
}

export function temporalError(error: unknown): TemporalUnavailableError {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  const message = cause instanceof Error ? cause.message : String(cause);
  return new TemporalUnavailableError(
    `Temporal can't be reached or refused: ${message}. Check TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE, or start a server with 'perdure up'.`,
    {},
    { cause: error },
  );
}
