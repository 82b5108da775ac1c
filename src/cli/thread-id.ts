import { threadId } from '../contracts/ids.ts';
import { UsageError } from './exit-status.ts';

/** @throws UsageError when no thread can be called that. */
export function checkThreadId(id: string): void {
  const parsed = threadId.safeParse(id);
  if (!parsed.success) throw new UsageError(`THREAD: ${parsed.error.issues[0]?.message}.`);
}
