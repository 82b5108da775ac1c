import type { OperationView } from '../contracts/operations.ts';
import { listOperations } from '../operations/ledger-views.ts';
import { readThread } from '../threads/views.ts';
import { EXIT } from './exit-status.ts';
import { plain } from './output.ts';
import { withDatabase } from './looking.ts';
import type { Session } from './session.ts';
import { cell, table, time } from './table.ts';

export type OperationsOptions = { status?: OperationView['status']; limit: number };

export async function showOperations(
  session: Session,
  threadId: string | undefined,
  options: OperationsOptions,
): Promise<number> {
  const operations = await withDatabase(session, async (database, tenant) => {
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
