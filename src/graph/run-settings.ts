import type { RunControl } from '@langchain/langgraph';
import type { BoundSaver } from '../checkpoint/saver.ts';
import type { RunConfig } from '../contracts/runs.ts';
import type { RunContext } from '../operations/run-context.ts';
import type { Database } from '../postgres/database.ts';
import { faultsArmed } from '../telemetry/fault-points.ts';
import type { ClaimedRun } from '../threads/segment.ts';
import { branchOf } from './fork.ts';
import { nodeFaults } from './node-faults.ts';
import { DEFAULT_RECURSION_LIMIT } from './segment-input.ts';

type RunOfSettings = { run_id: string; checkpoint_thread_id: string; config: RunConfig };

/** What LangGraph is told, the same for a segment and for a task on its own. */
export function streamSettings(run: RunOfSettings, how: { signal: AbortSignal; control: RunControl }) {
  const { config } = run;
  return {
    configurable: { ...config.configurable, thread_id: run.checkpoint_thread_id },
    recursionLimit: config.recursion_limit ?? DEFAULT_RECURSION_LIMIT,
    durability: 'sync' as const,
    streamMode: 'updates' as const,
    control: how.control,
    signal: how.signal,
    metadata: { ...config.metadata, perdure_run_id: run.run_id },
    ...(config.tags ? { tags: config.tags } : {}),
    ...(config.context ? { context: config.context } : {}),
    ...(config.max_concurrency ? { maxConcurrency: config.max_concurrency } : {}),
    ...(config.interrupt_before ? { interruptBefore: config.interrupt_before } : {}),
    ...(config.interrupt_after ? { interruptAfter: config.interrupt_after } : {}),
    ...(faultsArmed() ? { callbacks: [nodeFaults()] } : {}),
  };
}

type RunOfContext = Pick<
  ClaimedRun,
  | 'run_id'
  | 'kind'
  | 'effects'
  | 'rewound'
  | 'branch_id'
  | 'branch_effects'
  | 'checkpoint_thread_id'
  | 'lineage_root'
>;

/** What operations find out about where they run, the same for a segment and for a task on its own. */
export function runContext(
  options: { database: Database; workerId: string },
  thread: { tenant_id: string; thread_id: string },
  run: RunOfContext,
  attempt: Pick<RunContext, 'fence' | 'forkSteps' | 'tools' | 'signal' | 'fail'> & { saver: BoundSaver },
): RunContext {
  const { saver, ...rest } = attempt;
  return {
    database: options.database,
    tenantId: thread.tenant_id,
    threadId: thread.thread_id,
    checkpointThreadId: run.checkpoint_thread_id,
    lineageRoot: run.lineage_root,
    branch: branchOf(run),
    runId: run.run_id,
    stepOf: (ns: string) => saver.stepOf(ns),
    serde: saver.serde,
    workerId: options.workerId,
    ...rest,
  };
}
