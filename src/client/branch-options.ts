import type { JsonValue } from '../contracts/json.ts';
import type { CopyRequest, EffectsMode, ForkRequest, RunConfig } from '../contracts/runs.ts';

export type ForkOptions = {
  /** One of the thread's checkpoints, as `history` lists them: of the whole graph, or of a subgraph. */
  checkpointId: string;
  /** What the state is changed by, as a node would return it. Default: nothing. */
  values?: JsonValue;
  /** The node that the change is attributed to. Default: the one that ran last. */
  asNode?: string;
  /** What may happen outside in the branch. Default `recorded`. */
  effects?: EffectsMode;
  /** The run's settings, in place of those of the run that made the checkpoint, which are the default. */
  config?: RunConfig;
  /** Default `user:unknown`. */
  actor?: string;
};

export type CopyOptions = {
  /** The root checkpoint that the copy stands at. Default: where the thread stands. */
  checkpointId?: string;
  /** The copy's id. Default: a random one. */
  as?: string;
  /** What may happen outside in the copy. Default `recorded`. */
  effects?: EffectsMode;
  /** Default `user:unknown`. */
  actor?: string;
};

export function toForkRequest({ checkpointId, asNode, ...rest }: ForkOptions): ForkRequest {
  return {
    checkpoint_id: checkpointId,
    ...given(rest),
    ...(asNode === undefined ? {} : { as_node: asNode }),
  };
}

export function toCopyRequest({ checkpointId, ...rest }: CopyOptions): CopyRequest {
  return { ...(checkpointId === undefined ? {} : { checkpoint_id: checkpointId }), ...given(rest) };
}

function given<T extends object>(options: T): T {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as T;
}
