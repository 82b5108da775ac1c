import { redact } from '../contracts/redact.ts';
import type { AdvanceResult } from '../contracts/thread-workflow.ts';

/** A task's node failed; what becomes of it is recorded. */
export class TaskFailure extends Error {
  override name = 'TaskFailure';
  /** When the same activity tries it again, in ms from now; undefined: it doesn't. */
  readonly retryAfterMs: number | undefined;
  /** Where a segment ran the task: how that ended. */
  readonly result: AdvanceResult | undefined;

  constructor(node: string, cause: unknown, then: { retryAfterMs?: number; result?: AdvanceResult }) {
    const why = cause instanceof Error ? `${cause.name}: ${cause.message}` : String(cause);
    super(redact(`${node}: ${why}`), { cause });
    this.retryAfterMs = then.retryAfterMs;
    this.result = then.result;
  }
}
