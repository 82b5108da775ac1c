import { getConfig } from '@langchain/langgraph';
import { InvalidInputError, PerdureError } from '../contracts/errors.ts';
import { runningOperation } from './current-operation.ts';
import { keyOperationId, nestedOperationId, slotOperationId, type SlotCall } from './operation-id.ts';
import type { RunContext } from './run-context.ts';
import { nodePath, slotLevels, type TaskPlace } from './task-place.ts';

export type NamedCall = {
  tool: string;
  toolCallId?: string | undefined;
  businessKey?: string | undefined;
};

/** The operation's id, and the way to the node that asks for it. */
export type CurrentSlot = { operationId: string; node: string };

/**
 * Names the call that is being made, from where it is made. Without a business key and a tool-call id the calls of
 * a tool are counted, in each task and inside each operation, in the order in which they are made: calls that run in
 * parallel in one node are told apart by that order, so they have to be begun in the same order on every retry, as
 * `Promise.all(items.map(...))` does. Where the order may change, give each a key.
 * @throws InvalidInputError when the call has no key and is made outside of a graph's node.
 */
export function currentSlot(run: RunContext, call: NamedCall): CurrentSlot {
  const task = currentTask();
  const levels =
    task === undefined
      ? []
      : slotLevels(task.place, (checkpointNs) => run.stepOf(checkpointNs), run.forkSteps);
  const node = nodePath(levels);
  if (call.businessKey !== undefined)
    return { operationId: keyOperationId(run.tenantId, call.businessKey), node };
  const outer = runningOperation();
  if (outer !== undefined) {
    const slotCall = named(call) ?? counted(outer.ordinals, call.tool);
    return { operationId: nestedOperationId(outer.operationId, call.tool, slotCall), node };
  }
  if (task === undefined)
    throw new InvalidInputError(
      `'${call.tool}' was called outside of a graph's node, so nothing names the call. Give it a business key, or call it inside a node.`,
      { tool: call.tool },
    );
  const slotCall = named(call) ?? counted(ordinalsOf(task.scratchpad), call.tool);
  const slot = {
    tenantId: run.tenantId,
    lineageRoot: run.lineageRoot,
    levels,
    tool: call.tool,
    call: slotCall,
  };
  return { operationId: slotOperationId(slot), node };
}

function named(call: NamedCall): SlotCall | undefined {
  return call.toolCallId === undefined || call.toolCallId === ''
    ? undefined
    : { toolCallId: call.toolCallId };
}

function counted(ordinals: Map<string, number>, tool: string): SlotCall {
  const ordinal = ordinals.get(tool) ?? 0;
  ordinals.set(tool, ordinal + 1);
  return { ordinal };
}

/** The signal of the task that is executing: a node's timeout, a sibling's failure. */
export function currentTaskSignal(): AbortSignal | undefined {
  return readConfig()?.signal;
}

type Scratchpad = { interruptCounter: number };

function currentTask(): { place: TaskPlace; scratchpad: Scratchpad } | undefined {
  const config = readConfig();
  const configurable: Record<string, unknown> = config?.configurable ?? {};
  const metadata: Record<string, unknown> = config?.metadata ?? {};
  const checkpointNs = configurable['checkpoint_ns'];
  const scratchpad = configurable['__pregel_scratchpad'];
  if (typeof checkpointNs !== 'string' || checkpointNs === '' || !isScratchpad(scratchpad)) return undefined;
  const checkpoints = configurable['checkpoint_map'];
  const step = metadata['langgraph_step'];
  return {
    place: {
      checkpointNs,
      step: typeof step === 'number' ? step : undefined,
      path: metadata['langgraph_path'],
      checkpoints: isRecord(checkpoints) ? checkpoints : {},
    },
    scratchpad,
  };
}

/** Undefined outside of LangGraph, where getConfig() throws or gives nothing. */
function readConfig(): ReturnType<typeof getConfig> | undefined {
  try {
    return getConfig();
  } catch {
    return undefined;
  }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

function isScratchpad(value: unknown): value is Scratchpad {
  return isRecord(value) && typeof value['interruptCounter'] === 'number';
}

const countedTasks = new WeakMap<Scratchpad, Map<string, number>>();

/**
 * The counts of the task's current attempt. LangGraph keeps one scratchpad for a task through the retries of its
 * node's policy, and says that an attempt begins by setting `interruptCounter` back to -1: the counts begin again
 * with it. (The config has the attempt's number, but not in the part that reaches tools.)
 */
function ordinalsOf(scratchpad: Scratchpad): Map<string, number> {
  const known = countedTasks.get(scratchpad);
  if (known !== undefined) return known;
  const ordinals = new Map<string, number>();
  let counter = scratchpad.interruptCounter;
  const defined = Reflect.defineProperty(scratchpad, 'interruptCounter', {
    configurable: true,
    enumerable: true,
    get: () => counter,
    set: (value: number) => {
      if (value === -1) ordinals.clear();
      counter = value;
    },
  });
  if (!defined)
    throw new PerdureError(
      'LANGGRAPH_UNSUPPORTED',
      'This version of @langchain/langgraph keeps its tasks in a way that perdure does not know, so calls can not be counted; give the operation a business key.',
    );
  countedTasks.set(scratchpad, ordinals);
  return ordinals;
}
