import {
  BaseCheckpointSaver,
  type ChannelVersions,
  type Checkpoint,
  type CheckpointMetadata,
  type CheckpointTuple,
  type DeltaChannelHistory,
} from '@langchain/langgraph-checkpoint';
import { InvalidInputError } from '../contracts/errors.ts';
import type { CompiledGraph } from './define-graph.ts';
import { readSend } from './node-policies.ts';

const TASKS_CHANNEL = '__pregel_tasks';

/** A task that LangGraph plans from a checkpoint. */
export type PlannedTask = {
  id: string;
  name: string;
  /** The place of its `Send` in the superstep; undefined where it was triggered by channels. */
  sendIndex: number | undefined;
  /** The tool that it calls, where it is a tool call of a LangChain agent. */
  tool: string | undefined;
};

/** Reads the history of a DeltaChannel, which no checkpoint holds whole. */
type HistoryReader = Pick<BaseCheckpointSaver, 'getDeltaChannelHistory'>;

/** The tasks of the superstep that begins at a checkpoint, in LangGraph's order. */
export async function plannedTasks(
  graph: CompiledGraph,
  tuple: CheckpointTuple,
  history: HistoryReader,
): Promise<PlannedTask[]> {
  const own: CompiledGraph = graph.withConfig({});
  own.checkpointer = new FixedCheckpoint(tuple, history);
  const threadId: unknown = tuple.config.configurable?.['thread_id'];
  const state = await own.getState({ configurable: { thread_id: String(threadId) } });
  const sends: unknown = tuple.checkpoint.channel_values[TASKS_CHANNEL];
  return state.tasks.map((task) => {
    const path: unknown = task.path;
    const sendIndex = Array.isArray(path) && path[0] === '__pregel_push' ? Number(path[1]) : undefined;
    const call =
      sendIndex !== undefined && Array.isArray(sends) ? readSend(sends[sendIndex]).toolCall : undefined;
    return {
      id: task.id,
      name: task.name,
      sendIndex,
      tool: typeof call?.name === 'string' ? call.name : undefined,
    };
  });
}

/** One checkpoint, whatever is asked for. */
class FixedCheckpoint extends BaseCheckpointSaver {
  readonly #tuple: CheckpointTuple;
  readonly #history: HistoryReader;

  constructor(tuple: CheckpointTuple, history: HistoryReader) {
    super();
    this.#tuple = tuple;
    this.#history = history;
  }

  override getTuple(): Promise<CheckpointTuple | undefined> {
    return Promise.resolve({ ...this.#tuple, pendingWrites: [] });
  }

  override async *list(): AsyncGenerator<CheckpointTuple> {
    yield this.#tuple;
  }

  override getDeltaChannelHistory(options: {
    config: Parameters<BaseCheckpointSaver['getTuple']>[0];
    channels: string[];
  }): Promise<Record<string, DeltaChannelHistory>> {
    return this.#history.getDeltaChannelHistory(options);
  }

  override put(
    _config: unknown,
    _checkpoint: Checkpoint,
    _metadata: CheckpointMetadata,
    _newVersions: ChannelVersions,
  ): Promise<never> {
    return Promise.reject(readOnly());
  }

  override putWrites(): Promise<never> {
    return Promise.reject(readOnly());
  }

  override deleteThread(): Promise<never> {
    return Promise.reject(readOnly());
  }
}

function readOnly(): InvalidInputError {
  return new InvalidInputError('This checkpoint is for reading only.');
}

/** A node that is no task: LangGraph passes over a `Send` to it. */
const PASSED_OVER = '__perdure_passed_over__';

/**
 * The checkpoint as the attempt on one of its tasks finds it: a sibling that was sent is passed over, and one that
 * was triggered counts as finished. So the work of planning a superstep doesn't grow with the square of its `Send`s.
 */
export function aloneIn(
  tuple: CheckpointTuple,
  tasks: readonly PlannedTask[],
  task: PlannedTask,
): CheckpointTuple {
  const { checkpoint } = tuple;
  const sends: unknown = checkpoint.channel_values[TASKS_CHANNEL];
  const siblings = tasks.filter(({ id, sendIndex }) => id !== task.id && sendIndex === undefined);
  const marks = siblings.map(({ id }): [string, string, null] => [id, '__no_writes__', null]);
  const pendingWrites = [...(tuple.pendingWrites ?? []), ...marks];
  if (!Array.isArray(sends)) return { ...tuple, pendingWrites };
  const passedOver = { node: PASSED_OVER, args: null };
  const left =
    task.sendIndex === undefined
      ? []
      : sends
          .slice(0, task.sendIndex + 1)
          .map((send: unknown, index) => (index === task.sendIndex ? send : passedOver));
  const channel_values = { ...checkpoint.channel_values, [TASKS_CHANNEL]: left };
  return { ...tuple, checkpoint: { ...checkpoint, channel_values }, pendingWrites };
}

/**
 * The user's graph for an attempt on one task: the node that is passed over is known to it, and the node's error
 * handler is not, since that belongs to the superstep and runs once all its tasks have ended.
 */
export function graphForTask(graph: CompiledGraph, node: string): CompiledGraph {
  const own: CompiledGraph = graph.withConfig({});
  const nodes = own.nodes as Record<string, object>;
  const target = nodes[node];
  const changed: Record<string, object> = {
    ...nodes,
    ...(target === undefined ? {} : { [node]: withoutErrorHandler(target) }),
    [PASSED_OVER]: { triggers: [], channels: [], getNode: () => undefined },
  };
  Object.assign(own, { nodes: changed });
  return own;
}

function withoutErrorHandler(node: object): object {
  if (!('errorHandlerNode' in node) || node.errorHandlerNode === undefined) return node;
  return Object.create(node, { errorHandlerNode: { value: undefined } }) as object;
}
