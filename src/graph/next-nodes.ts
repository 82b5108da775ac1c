import type { Checkpoint } from '@langchain/langgraph-checkpoint';
import { partsOf, type CompiledGraph } from './define-graph.ts';

const TASKS_CHANNEL = '__pregel_tasks';

/**
 * The names of the nodes whose tasks LangGraph will plan from a checkpoint: one for each waiting `Send`, and each
 * node with a trigger channel that holds a value newer than the node has seen.
 */
export function nextNodesOf(graph: CompiledGraph): (checkpoint: Checkpoint) => string[] {
  const nodes = Object.entries(partsOf(graph).nodes);
  return (checkpoint) => {
    const values = checkpoint.channel_values;
    const versions = checkpoint.channel_versions;
    const sends: unknown = values[TASKS_CHANNEL];
    const next = Array.isArray(sends) ? sends.map(sendTarget) : [];
    for (const [name, node] of nodes) {
      const seen = checkpoint.versions_seen[name];
      const triggered = node.triggers.some((channel) => {
        const version = versions[channel];
        if (version === undefined || !(channel in values)) return false;
        const seenVersion = seen?.[channel];
        return seenVersion === undefined || version > seenVersion;
      });
      if (triggered) next.push(name);
    }
    return next;
  };
}

function sendTarget(send: unknown): string {
  return typeof send === 'object' && send !== null && 'node' in send ? String(send.node) : 'unknown';
}
