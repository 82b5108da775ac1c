import type { Checkpoint } from '@langchain/langgraph-checkpoint';
import type { NodePolicies, NodePolicy } from '../contracts/node-policy.ts';
import { partsOf, type CompiledGraph } from './define-graph.ts';
import { holdsToolNode } from './tool-nodes.ts';

const TASKS_CHANNEL = '__pregel_tasks';

/** What in a policy only an activity can heed. */
const OF_ACTIVITIES = [
  'taskQueue',
  'startToCloseTimeout',
  'scheduleToStartTimeout',
  'heartbeatTimeout',
  'concurrency',
] as const;

/** Which tasks of one graph run as activities of their own. */
export class ActivityNodes {
  readonly #policies: NodePolicies;
  readonly #always: ReadonlySet<string>;
  readonly #toolNodes: ReadonlySet<string>;

  constructor(graph: CompiledGraph, policies: NodePolicies) {
    const nodes = partsOf(graph).nodes;
    this.#policies = policies;
    this.#always = new Set(Object.keys(policies).filter((name) => asActivity(policies[name])));
    this.#toolNodes = new Set(
      Object.keys(nodes).filter(
        (name) => !(name in policies && runsInline(policies[name])) && holdsToolNode(nodes[name]?.bound),
      ),
    );
  }

  /** Whether any task of the graph may run as an activity. */
  get any(): boolean {
    return this.#always.size > 0 || this.#toolNodes.size > 0;
  }

  policy(node: string): NodePolicy {
    return this.#policies[node] ?? {};
  }

  /** The task queues that policies name, once each. */
  taskQueues(): string[] {
    const named = Object.values(this.#policies).flatMap(({ taskQueue }) => taskQueue ?? []);
    return [...new Set(named)];
  }

  /**
   * Whether the superstep that begins at a checkpoint has to run as activities: where one of its tasks does, all do.
   * @param planned the names of its tasks.
   */
  isDue(planned: readonly string[], checkpoint: Checkpoint): boolean {
    if (!this.any) return false;
    if (planned.some((name) => this.#always.has(name))) return true;
    const sends: unknown = checkpoint.channel_values[TASKS_CHANNEL];
    return (
      Array.isArray(sends) &&
      sends.some((send) => {
        const { node, toolCall } = readSend(send);
        return node !== undefined && toolCall !== undefined && this.#toolNodes.has(node);
      })
    );
  }
}

function asActivity(policy: NodePolicy | undefined): boolean {
  if (policy === undefined) return false;
  return policy.run === undefined
    ? OF_ACTIVITIES.some((field) => policy[field] !== undefined)
    : policy.run === 'activity';
}

function runsInline(policy: NodePolicy | undefined): boolean {
  return policy?.run === 'inline';
}

/** A waiting `Send`; one to a `ToolNode` holds the tool call. */
export function readSend(send: unknown): {
  node: string | undefined;
  toolCall: { name?: unknown } | undefined;
} {
  if (typeof send !== 'object' || send === null || !('node' in send))
    return { node: undefined, toolCall: undefined };
  const args: unknown = 'args' in send ? send.args : undefined;
  const call: unknown =
    typeof args === 'object' && args !== null && 'lg_tool_call' in args ? args.lg_tool_call : undefined;
  return {
    node: String(send.node),
    toolCall: typeof call === 'object' && call !== null ? call : undefined,
  };
}
