import { AsyncLocalStorage } from 'node:async_hooks';
import type { SerializerProtocol } from '@langchain/langgraph-checkpoint';
import type { EffectsMode } from '../contracts/runs.ts';
import type { ToolsSettings } from '../contracts/tool-settings.ts';
import type { Database } from '../postgres/database.ts';
import { processWide } from './process-wide.ts';

/** Named after the fork that began it. */
export type Branch = { id: string; effects: EffectsMode };

/** What the attempt that advances a thread tells the code that runs inside it. Set by the graph driver. */
export type RunContext = {
  database: Database;
  tenantId: string;
  threadId: string;
  /** The key of the thread in LangGraph's tables. */
  checkpointThreadId: string;
  /** The thread at the root of the line of forks; names the operations. */
  lineageRoot: string;
  /** The branch of a thread that was forked, and what may happen in it. */
  branch?: Branch | undefined;
  /** How many steps of the root graph are forks' own, so that a branch names its operations as the first one did. */
  forkSteps?: number | undefined;
  /** What the run's graph declares of tools that are no operations by themselves. */
  tools?: ToolsSettings | undefined;
  runId: string;
  /** The number that this attempt took; a newer attempt has a higher one. */
  fence: number;
  /** Aborted when the run is cancelled or its attempt has to stop. */
  signal: AbortSignal;
  /** The superstep now executing in a checkpoint namespace, where it is known. */
  stepOf(checkpointNs: string): number | undefined;
  serde: SerializerProtocol;
  workerId: string;
  /**
   * Ends the attempt because of an error of the machinery (the ledger can't be reached, a newer attempt took over),
   * also where the graph's own code would turn that error into a message and go on.
   */
  fail(error: Error): void;
};

const storage = (): AsyncLocalStorage<RunContext> =>
  processWide('run-context', () => new AsyncLocalStorage<RunContext>());

/** Runs `work` as part of a run: operations begun in it, also asynchronously, find `context`. */
export function withRunContext<T>(context: RunContext, work: () => T): T {
  return storage().run(context, work);
}

/** The run that the caller is part of, or undefined outside of one. */
export function currentRunContext(): RunContext | undefined {
  return storage().getStore();
}
