import type { Checkpoint } from '@langchain/langgraph-checkpoint';
import type { RunConfig } from '../contracts/runs.ts';
import type { BoundSaver } from '../checkpoint/saver.ts';
import type { CompiledGraph } from './define-graph.ts';
import { nextNodesOf } from './next-nodes.ts';

type Nodes = '*' | readonly PropertyKey[];

/** Nodes of LangGraph's own, such as `__start__`: `*` does not mean them. */
const HIDDEN = 'langsmith:hidden';

/**
 * Whether LangGraph stops at the thread's newest checkpoint because of `interruptBefore` or `interruptAfter`. For an
 * attempt that follows one whose end was not recorded: LangGraph takes what goes on without new input for a person's
 * "go on", and would pass the stop.
 */
export async function stopsAtHead(
  graph: CompiledGraph,
  saver: BoundSaver,
  threadId: string,
  config: RunConfig,
): Promise<boolean> {
  const before: Nodes = config.interrupt_before ?? graph.interruptBefore ?? [];
  const after: Nodes = config.interrupt_after ?? graph.interruptAfter ?? [];
  if (before.length === 0 && after.length === 0) return false;
  let head = await saver.getTuple({ configurable: { thread_id: threadId, checkpoint_ns: '' } });
  // A migrated checkpoint stands where the one it was made from stood, which its parent shows.
  while (head?.parentConfig && head.metadata && 'migrated_from' in head.metadata)
    head = await saver.getTuple(head.parentConfig);
  if (!head || !movedSinceStop(head.checkpoint)) return false;
  // What begins a fork goes on, as a person's "go on" does.
  if (head.metadata?.source === 'update' || head.metadata?.source === 'fork') return false;
  if (names(graph, head.checkpoint, before)) return true;
  if (after.length === 0 || head.metadata?.source !== 'loop') return false;
  const ran = head.parentConfig && (await saver.getTuple(head.parentConfig));
  return ran !== undefined && names(graph, ran.checkpoint, after);
}

/** Whether any channel changed since a person last let the thread go on: LangGraph's `shouldInterrupt`. */
function movedSinceStop(checkpoint: Checkpoint): boolean {
  const seen = checkpoint.versions_seen['__interrupt__'] ?? {};
  return Object.entries(checkpoint.channel_versions).some(([channel, version]) => {
    const known = seen[channel];
    return known === undefined || version > known;
  });
}

/** Whether a task that is planned from the checkpoint is of one of the nodes. */
function names(graph: CompiledGraph, checkpoint: Checkpoint, nodes: Nodes): boolean {
  const hidden = (name: string) =>
    (graph.nodes as Record<string, { tags?: string[] }>)[name]?.tags?.includes(HIDDEN) === true;
  return nextNodesOf(graph)(checkpoint).some((name) =>
    nodes === '*' ? !hidden(name) : nodes.includes(name),
  );
}
