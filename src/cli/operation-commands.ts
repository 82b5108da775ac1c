import type { OperationResolution, OperationView } from '../contracts/operations.ts';
import { EXIT, UsageError } from './exit-status.ts';
import { parseJsonOption } from './json-text.ts';
import { plain } from './output.ts';
import { servedBy, withDatabase, withRuntime } from './runtime.ts';
import type { Session } from './session.ts';
import { cell, table, time } from './table.ts';

export type OperationsOptions = { status?: OperationView['status']; limit: number };

export async function showOperations(session: Session, threadId: string | undefined, options: OperationsOptions): Promise<number> {
  const operations = await withDatabase(session, async (database, tenant) => {
    const [{ listOperations }, { readThread }] = await Promise.all([import('../operations/ledger-views.ts'), import('../threads/views.ts')]);
    if (threadId !== undefined) await readThread(database, tenant, threadId);
    return listOperations(database, tenant, { ...options, ...(threadId === undefined ? {} : { threadId }) });
  });
  session.output.result({ operations }, () => {
    const list = table(
      ['OPERATION', 'STATUS', 'KIND', 'TOOL', 'THREAD', 'BEGUN', 'RESULT'],
      operations.map((one) => [
        one.operation_id,
        one.status,
        one.kind,
        one.tool,
        one.thread_id,
        time(one.started_at),
        cell(one.error ? one.error.message : one.result === null ? '' : one.result),
      ]),
      'no operations',
    );
    const unknown = operations.find(({ status }) => status === 'unknown');
    if (!unknown) return list;
    const resolve = session.commandLine('operations', 'resolve', unknown.operation_id);
    return `${list}\n\nIt is not known whether ${plain(unknown.operation_id)} happened. Look on the far side, then say so:\n  ${resolve} --happened JSON\n  ${resolve} --retry`;
  });
  return EXIT.done;
}

export type ResolveOptions = { happened?: string; retry?: boolean; worker: boolean };

/** Says what became of an operation; its thread goes on by itself. */
export async function resolveOperation(session: Session, operationId: string, options: ResolveOptions): Promise<number> {
  const resolution = readResolution(options);
  const settings = await session.settings();
  const progress = await session.output.progress();
  const { operation, answered } = await withRuntime(session, settings, progress, async (runtime) => {
    const { client } = runtime;
    const { thread_id } = await client.operation(operationId);
    if (options.worker) await servedBy(runtime, await client.thread(thread_id));
    return client.resolveOperation(operationId, resolution, settings.config.actor);
  });
  session.output.result({ operation, run_id: answered?.run_id ?? null }, () => {
    const goesOn = answered ? `\nIts thread goes on. Follow it: ${session.commandLine('thread', operation.thread_id)}` : '';
    return `${plain(operationId)} is ${operation.status}, said ${operation.resolved_by ?? settings.config.actor}.${goesOn}`;
  });
  return EXIT.done;
}

function readResolution({ happened, retry }: ResolveOptions): OperationResolution {
  if ((happened === undefined) === (retry !== true))
    throw new UsageError('Say what became of the operation: either --happened JSON (its result) or --retry.');
  return happened === undefined ? { retry: true } : { happened: parseJsonOption('--happened', happened) };
}
