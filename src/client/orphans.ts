import { WorkflowNotFoundError, type Client } from '@temporalio/client';
import { parseThreadWorkflowId, threadWorkflowPrefix } from '../contracts/ids.ts';
import { THREAD_WORKFLOW } from '../contracts/thread-workflow.ts';
import type { Database } from '../postgres/database.ts';
import { unknownThreads, type ThreadKey } from '../threads/views.ts';
import { temporalError } from './wake.ts';

/** Workflows that are compared with Postgres at a time. */
const PAGE = 500;

type Open = { workflowId: string; runId: string; thread: ThreadKey };

/**
 * Ends open workflows of threads that Postgres does not know, since it was put back to a backup from before they
 * began.
 * @returns those threads: who asked something of them has to ask again.
 * @throws TemporalUnavailableError
 */
export async function endOrphans(database: Database, temporal: Client): Promise<ThreadKey[]> {
  const prefix = threadWorkflowPrefix(database.schema);
  const ended: ThreadKey[] = [];
  let page: Open[] = [];
  try {
    const open = temporal.workflow.list({
      query: `WorkflowType = '${THREAD_WORKFLOW}' AND ExecutionStatus = 'Running'`,
    });
    for await (const { workflowId, runId } of open) {
      const thread = workflowId.startsWith(prefix)
        ? parseThreadWorkflowId(database.schema, workflowId)
        : undefined;
      if (thread) page.push({ workflowId, runId, thread });
      if (page.length < PAGE) continue;
      ended.push(...(await endUnknown(database, temporal, page)));
      page = [];
    }
    ended.push(...(await endUnknown(database, temporal, page)));
  } catch (error) {
    throw temporalError(error);
  }
  return ended;
}

async function endUnknown(database: Database, temporal: Client, page: Open[]): Promise<ThreadKey[]> {
  const unknown = await unknownThreads(
    database,
    page.map(({ thread }) => thread),
  );
  const orphans = page.filter(({ thread }) =>
    unknown.some((one) => one.tenant_id === thread.tenant_id && one.thread_id === thread.thread_id),
  );
  for (const { workflowId, runId } of orphans)
    try {
      await temporal.workflow
        .getHandle(workflowId, runId)
        .terminate('Postgres, put back to a backup, does not know this thread');
    } catch (error) {
      if (!(error instanceof WorkflowNotFoundError)) throw error;
    }
  return orphans.map(({ thread }) => thread);
}
