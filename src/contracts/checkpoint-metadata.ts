import { z } from 'zod';

/** What perdure adds to the metadata of every checkpoint that a run writes. */
export const checkpointMetadata = z.object({
  /** `refund-flow@17` */
  graph_version: z.string(),
  run_id: z.string(),
  /** Equals LangGraph's `step` in the root namespace. */
  superstep: z.int(),
  /** How many checkpoints the thread's root namespace has had, this one included. */
  state_version: z.int(),
  /** The node that comes next (several parallel ones joined by `,`); null at the end. */
  resume_node: z.string().nullable(),
  /** Names of the nodes whose tasks come next, one entry a task (a `Send` each), empty at the end. */
  pending_tasks: z.array(z.string()),
});
export type CheckpointMetadataFields = z.infer<typeof checkpointMetadata>;
