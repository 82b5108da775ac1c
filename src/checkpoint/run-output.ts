import type { CheckpointPendingWrite, PendingWrite } from '@langchain/langgraph-checkpoint';

/**
 * The output of a run that no checkpoint holds whole, kept among the writes of the run's last checkpoint, where it
 * refers to the same elements as the rest, and goes when the checkpoint goes. LangGraph never sees it.
 */
const CHANNEL = '__perdure_output__';
export const OUTPUT_TASK = CHANNEL;

export type RunOutput = Readonly<Record<string, unknown>>;

export function outputWrite(output: RunOutput): PendingWrite {
  return [CHANNEL, output];
}

/** The writes of tasks, and the output among them. */
export function withoutOutput(writes: readonly CheckpointPendingWrite[]): {
  writes: CheckpointPendingWrite[];
  output: RunOutput | undefined;
} {
  const kept = writes.find(([taskId, channel]) => taskId === OUTPUT_TASK && channel === CHANNEL);
  return {
    writes: writes.filter((write) => write !== kept),
    output: kept?.[2] as RunOutput | undefined,
  };
}
