import { createHash } from 'node:crypto';
import { uuid5 } from '@langchain/langgraph-checkpoint';
import { namespaceParts } from '../contracts/namespaces.ts';
import type { SlotLevel } from './operation-id.ts';

/** What LangGraph says of the task that is executing, from its RunnableConfig. */
export type TaskPlace = {
  /** `agent:<task id>|tools:<task id>`: the way to the task, each level with the task's id. */
  checkpointNs: string;
  /** The task's superstep. */
  step: number | undefined;
  /** `['__pregel_pull', node]`, `['__pregel_push', index of the Send, false]`, and others. */
  path: unknown;
  /** The checkpoint that each enclosing graph stands at, by the graph's namespace. */
  checkpoints: Readonly<Record<string, unknown>>;
};

/** Sends of one superstep that are looked through to find a task's place. */
const MAX_SENDS = 4_096;

/** Names of the channels that a node without joins can be triggered by. */
const pullTriggers = (node: string): string[] => [`branch:to:${node}`, '__start__', node];

/**
 * The levels of the task's slot. LangGraph passes the superstep and the place of the innermost task only, and the
 * enclosing ones by their task ids; those are made from superstep, place and checkpoint id (a UUID of version 5),
 * so that the place is found by trying. What is not found is named by the task id: still the same on every retry
 * and never another task's, only not the same on a fork.
 *
 * @param forkSteps the root graph's steps that forks added: a branch's slots are those of the branch it came from.
 */
export function slotLevels(
  place: TaskPlace,
  stepOf: (checkpointNs: string) => number | undefined,
  forkSteps = 0,
): SlotLevel[] {
  const parts = place.checkpointNs.split('|');
  return namespaceParts(place.checkpointNs).map(({ node: name, taskId }, index) => {
    const graphNs = parts.slice(0, index).join('|');
    const notCounted = index === 0 ? forkSteps : 0;
    // A second subgraph called by one task: a bare number.
    if (taskId === undefined) return { node: name, execution: '' };
    const execution =
      index === parts.length - 1
        ? innermostExecution(place, taskId, notCounted)
        : outerExecution({
            name,
            taskId,
            graphNs,
            step: stepOf(graphNs),
            checkpointId: place.checkpoints[graphNs],
            notCounted,
          });
    return { node: name, execution };
  });
}

/** The nodes on the way, for people: `agent/tools`. */
export function nodePath(levels: readonly SlotLevel[]): string {
  return levels.map((level) => level.node).join('/');
}

function innermostExecution(place: TaskPlace, taskId: string, notCounted: number): string {
  if (place.step === undefined) return byTaskId(taskId);
  return `${place.step - notCounted}${pathSuffix(place.path)}`;
}

function pathSuffix(path: unknown): string {
  if (!Array.isArray(path)) return '';
  if (path[0] === '__pregel_pull' && path.length === 2) return '';
  if (path[0] === '__pregel_push' && isIndex(path[1]) && path[2] === false) return `.${path[1]}`;
  // A task() of the functional API, a node's error handler: their paths hold names, indices and flags only.
  return `.h${createHash('sha256').update(JSON.stringify(path)).digest('hex').slice(0, 16)}`;
}

function isIndex(value: unknown): value is number | string {
  return typeof value === 'number' || (typeof value === 'string' && /^\d+$/.test(value));
}

type OuterTask = {
  name: string;
  taskId: string;
  graphNs: string;
  step: number | undefined;
  checkpointId: unknown;
  /** How many of the steps are forks' own. */
  notCounted: number;
};

function outerExecution({ name, taskId, graphNs, step, checkpointId, notCounted }: OuterTask): string {
  if (step === undefined || typeof checkpointId !== 'string') return byTaskId(taskId);
  const origin = originOf({ name, graphNs, step, checkpointId }, taskId);
  if (origin === undefined) return byTaskId(taskId);
  return `${step - notCounted}${origin[0] === '__pregel_push' ? `.${origin[1]}` : ''}`;
}

/** Where a task is planned: its node, the namespace of the graph, the superstep and the checkpoint. */
export type Planning = { name: string; graphNs: string; step: number; checkpointId: string };

/** What a task's id is made of besides. */
export type TaskOrigin = readonly ['__pregel_pull', readonly string[]] | readonly ['__pregel_push', string];

/** Found by trying; undefined for a task of another kind. */
export function originOf(planning: Planning, taskId: string): TaskOrigin | undefined {
  for (const trigger of pullTriggers(planning.name)) {
    const origin = ['__pregel_pull', [trigger]] as const;
    if (taskIdOf(planning, origin) === taskId) return origin;
  }
  for (let index = 0; index < MAX_SENDS; index += 1) {
    const origin = ['__pregel_push', String(index)] as const;
    if (taskIdOf(planning, origin) === taskId) return origin;
  }
  return undefined;
}

/** As LangGraph makes it. */
export function taskIdOf({ name, graphNs, step, checkpointId }: Planning, origin: TaskOrigin): string {
  const ns = graphNs === '' ? name : `${graphNs}|${name}`;
  return uuid5(JSON.stringify([ns, String(step), name, ...origin]), checkpointId);
}

function byTaskId(taskId: string): string {
  return `t${taskId.replaceAll('-', '')}`;
}
