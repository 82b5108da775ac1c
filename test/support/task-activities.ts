import { threadWorkflowId } from '../../src/contracts/ids.ts';
import type { Installation } from './installation.ts';

/** The activities that ran tasks of a thread, in the order in which they were scheduled, as Temporal shows them. */
export async function taskActivities(
  at: Installation,
  threadId: string,
): Promise<{ name: string; queue: string; summary: string }[]> {
  const history = await at.temporal.workflow
    .getHandle(threadWorkflowId(at.schema, 'default', threadId))
    .fetchHistory();
  return (history.events ?? []).flatMap((event) => {
    const scheduled = event.activityTaskScheduledEventAttributes;
    if (scheduled?.activityType?.name !== 'runTask') return [];
    const data = event.userMetadata?.summary?.data;
    return [
      {
        name: 'runTask',
        queue: scheduled.taskQueue?.name ?? '',
        summary: data ? String(JSON.parse(Buffer.from(data).toString('utf8'))) : '',
      },
    ];
  });
}
