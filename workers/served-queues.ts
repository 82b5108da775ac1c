import { ConfigError } from '../src/contracts/errors.ts';
import { graphTaskQueue, nodeTaskQueue } from '../src/contracts/ids.ts';
import type { LoadedGraph } from '../src/graph/load-graphs.ts';

/** Stands for the queue of each graph's own, which takes threads and all tasks without a queue of their node's own. */
const GRAPHS = 'graphs';

export type ServedQueues = {
  graphs: { graph: string; version: string; task_queue: string }[];
  /** As Temporal knows them. */
  nodes: string[];
};

/**
 * Which task queues a worker serves.
 * @param wanted `graphs`, and names that policies of nodes give. Default: all.
 * @throws ConfigError when a name is none of these.
 */
export function servedQueues(
  schema: string,
  graphs: readonly LoadedGraph[],
  wanted: readonly string[] | undefined,
): ServedQueues {
  const known = new Set([GRAPHS, ...graphs.flatMap(({ activityNodes }) => activityNodes.taskQueues())]);
  const unknown = wanted?.find((name) => !known.has(name));
  if (unknown !== undefined || wanted?.length === 0)
    throw new ConfigError(
      `PERDURE_TASK_QUEUES: no policy of a node names the task queue '${unknown ?? ''}'; there are ${[...known].join(', ')}.`,
      { variable: 'PERDURE_TASK_QUEUES' },
    );
  const serves = (name: string) => wanted === undefined || wanted.includes(name);
  return {
    graphs: serves(GRAPHS)
      ? graphs.map(({ name, version }) => ({
          graph: name,
          version,
          task_queue: graphTaskQueue(schema, name, version),
        }))
      : [],
    nodes: graphs.flatMap(({ name, version, activityNodes }) =>
      activityNodes
        .taskQueues()
        .filter(serves)
        .map((queue) => nodeTaskQueue(schema, name, version, queue)),
    ),
  };
}
