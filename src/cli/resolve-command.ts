import type { OperationResolution } from '../contracts/operations.ts';
import { EXIT, UsageError } from './exit-status.ts';
import { parseJsonOption } from './json-text.ts';
import { plain } from './output.ts';
import type { Session } from './session.ts';

export type ResolveOptions = { happened?: string; retry?: boolean; worker: boolean };

/** Says what became of an operation; its thread goes on by itself. */
export async function resolveOperation(
  session: Session,
  operationId: string,
  options: ResolveOptions,
): Promise<number> {
  const resolution = readResolution(options);
  const settings = await session.settings();
  const progress = await session.output.progress();
  const { servedBy, withRuntime } = await import('./runtime.ts');
  const { operation, answered } = await withRuntime(session, settings, progress, async (runtime) => {
    const { client } = runtime;
    const { thread_id } = await client.operation(operationId);
    if (options.worker) await servedBy(runtime, await client.thread(thread_id));
    return client.resolveOperation(operationId, resolution, settings.config.actor);
  });
  session.output.result({ operation, run_id: answered?.run_id ?? null }, () => {
    const goesOn = answered
      ? `\nIts thread goes on. Follow it: ${session.commandLine('thread', operation.thread_id)}`
      : '';
    return `${plain(operationId)} is ${operation.status}, said ${operation.resolved_by ?? settings.config.actor}.${goesOn}`;
  });
  return EXIT.done;
}

function readResolution({ happened, retry }: ResolveOptions): OperationResolution {
  if ((happened === undefined) === (retry !== true))
    throw new UsageError('Say what became of the operation: either --happened JSON (its result) or --retry.');
  return happened === undefined ? { retry: true } : { happened: parseJsonOption('--happened', happened) };
}
