import { BaseCallbackHandler } from '@langchain/core/callbacks/base';
import type { Serialized } from '@langchain/core/load/serializable';
import { faultPoint } from '../telemetry/fault-points.ts';

/** A fault point inside every node, `node:<name>`, for tests that kill the worker there. Used only when one is armed. */
export function nodeFaults(): BaseCallbackHandler {
  return new NodeFaults();
}

class NodeFaults extends BaseCallbackHandler {
  override name = 'perdure-node-faults';
  override awaitHandlers = true;

  /** Typed by what the manager really passes, in which the run's name comes last but for `extra`. */
  override handleChainStart(
    _chain: Serialized,
    _inputs: unknown,
    _runId: string,
    _parentRunId?: string,
    _tags?: string[],
    metadata?: Record<string, unknown>,
    _runType?: string,
    runName?: string,
  ): void {
    const node = metadata?.['langgraph_node'];
    if (typeof node === 'string' && node === runName) faultPoint(`node:${node}`);
  }
}
