import {
  BaseCheckpointSaver,
  type CheckpointTuple,
  type DeltaChannelHistory,
} from '@langchain/langgraph-checkpoint';
import { isResult } from '../checkpoint/progress.ts';
import type { PerdureSaver } from '../checkpoint/saver.ts';
import { graphRef } from '../contracts/ids.ts';
import type { CompiledGraph } from './define-graph.ts';
import type { GraphShape } from './fingerprint.ts';
import type { LoadedGraph } from './load-graphs.ts';
import { nextNodesOf } from './next-nodes.ts';

type Asked = { interrupt_id: string; node: string };

/**
 * Why a graph can't go on from a checkpoint that another version of it wrote, in words; undefined when it can: it
 * plans the same tasks, finds what they have written so far, and asks the same questions.
 */
export async function whyNoPlace(
  graph: LoadedGraph,
  saver: PerdureSaver,
  head: CheckpointTuple,
  asked: readonly Asked[],
): Promise<string | undefined> {
  const planned = pendingTasks(head);
  const gone =
    planned.find((node) => !(node in graph.shape.nodes)) ??
    asked.find(({ node }) => !hasNode(graph.shape, node.split('|')))?.node;
  if (gone !== undefined) return `resume node '${gone}' is gone in ${graph.version}`;
  const next = nextNodesOf(graph.graph)(head.checkpoint);
  const lost = missing(planned, next);
  if (lost !== undefined)
    return `resume node '${lost}' is reached by another edge in ${graph.version}, which nothing has taken yet`;
  const added = missing(next, planned);
  if (added !== undefined && 'pending_tasks' in (head.metadata ?? {}))
    return `${graphRef(graph.name, graph.version)} would run node '${added}' next, which was not the next one`;
  return whyTasksDiffer(graph, saver, head, asked);
}

async function whyTasksDiffer(
  graph: LoadedGraph,
  saver: PerdureSaver,
  head: CheckpointTuple,
  asked: readonly Asked[],
): Promise<string | undefined> {
  const own: CompiledGraph = graph.graph.withConfig({});
  own.checkpointer = new Preview(saver, head);
  const threadId: unknown = head.config.configurable?.['thread_id'];
  const state = await own.getState({ configurable: { thread_id: threadId } }, { subgraphs: true });
  const tasks = new Set(state.tasks.map((task) => task.id));
  const written = (head.pendingWrites ?? []).find(([id, channel]) => isResult(id, channel) && !tasks.has(id));
  if (written)
    return `a task that has run already is planned another way in ${graph.version}; its result would be lost`;
  const found = new Set(questionIds(state.tasks));
  const lost = asked.find(({ interrupt_id }) => !found.has(interrupt_id));
  return lost && `the question of node '${lost.node}' would be lost in ${graph.version}`;
}

function pendingTasks({ metadata }: CheckpointTuple): string[] {
  const planned: unknown = metadata && 'pending_tasks' in metadata ? metadata['pending_tasks'] : [];
  return Array.isArray(planned) ? planned.map(String) : [];
}

/** The first name that is more often in `all` than in `there`. */
function missing(all: readonly string[], there: readonly string[]): string | undefined {
  const left = [...there];
  return all.find((name) => {
    const at = left.indexOf(name);
    if (at >= 0) left.splice(at, 1);
    return at < 0;
  });
}

function hasNode(shape: GraphShape, [name = '', ...inner]: string[]): boolean {
  const node = shape.nodes[name];
  if (!node) return false;
  if (inner.length === 0) return true;
  // A node that calls a graph in its code shows none; what it asks is then looked for by its id alone.
  return node.subgraph === undefined || hasNode(node.subgraph, inner);
}

type Task = { interrupts: readonly { id?: string }[]; state?: unknown };

function questionIds(tasks: readonly Task[]): string[] {
  return tasks.flatMap(({ interrupts, state }) => {
    const inner =
      typeof state === 'object' && state !== null && 'tasks' in state ? (state.tasks as Task[]) : [];
    return [...interrupts.flatMap(({ id }) => id ?? []), ...questionIds(inner)];
  });
}

/** The thread as it would be with another newest checkpoint. Only to be looked at. */
class Preview extends BaseCheckpointSaver {
  readonly #saver: PerdureSaver;
  readonly #head: CheckpointTuple;

  constructor(saver: PerdureSaver, head: CheckpointTuple) {
    super(saver.serde);
    this.#saver = saver;
    this.#head = head;
  }

  override async getTuple(
    config: Parameters<PerdureSaver['getTuple']>[0],
  ): Promise<CheckpointTuple | undefined> {
    const { checkpoint_ns: ns = '', checkpoint_id: id } = config.configurable ?? {};
    const isHead = ns === '' && (id === undefined || id === this.#head.checkpoint.id);
    return isHead ? this.#head : this.#saver.getTuple(config);
  }

  override list(...options: Parameters<PerdureSaver['list']>): ReturnType<PerdureSaver['list']> {
    return this.#saver.list(...options);
  }

  override getDeltaChannelHistory(
    options: Parameters<PerdureSaver['getDeltaChannelHistory']>[0],
  ): Promise<Record<string, DeltaChannelHistory>> {
    return this.#saver.getDeltaChannelHistory(options);
  }

  override put(): never {
    throw new Error('a preview is not written to');
  }

  override putWrites(): never {
    throw new Error('a preview is not written to');
  }

  override deleteThread(): never {
    throw new Error('a preview is not written to');
  }
}
