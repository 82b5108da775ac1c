import type { Database } from '../postgres/database.ts';

/** The operation that a thread's pending question is about; undefined when it is about none, or several wait. */
export async function operationQuestion(
  database: Database,
  tenant: string,
  threadId: string,
  interruptId: string | undefined,
): Promise<{ operationId: string; interruptId: string } | undefined> {
  const { rows } = await database.query<{ kind: string; operation_id: string | null; interrupt_id: string }>(
    `SELECT kind, operation_id, interrupt_id FROM ${database.table('interrupts')}
     WHERE tenant_id = $1 AND thread_id = $2 AND status = 'pending' AND ($3::text IS NULL OR interrupt_id = $3) LIMIT 2`,
    [tenant, threadId, interruptId ?? null],
  );
  const only = rows.length === 1 ? rows[0] : undefined;
  return only?.kind === 'operation' && only.operation_id !== null
    ? { operationId: only.operation_id, interruptId: only.interrupt_id }
    : undefined;
}

/** The oldest pending question about an operation. */
export async function questionOf(
  database: Database,
  tenant: string,
  operationId: string,
): Promise<{ thread_id: string; interrupt_id: string } | undefined> {
  const { rows } = await database.query<{ thread_id: string; interrupt_id: string }>(
    `SELECT thread_id, interrupt_id FROM ${database.table('interrupts')}
     WHERE tenant_id = $1 AND operation_id = $2 AND status = 'pending' ORDER BY sequence LIMIT 1`,
    [tenant, operationId],
  );
  return rows[0];
}
