import { Context } from '@temporalio/activity';
import type { MigrateActivities, ThreadMigration } from '../contracts/migrate-workflow.ts';
import { isPerdureError } from '../contracts/errors.ts';
import { migrateThread, type ThreadMigratorOptions } from '../graph/migrate-thread.ts';
import type { GraphRegistry } from '../graph/registry.ts';
import { machineryFailure } from './machinery-failure.ts';

export type MigrateActivityOptions = ThreadMigratorOptions & { graphs: GraphRegistry };

export function createMigrateActivities(options: MigrateActivityOptions): MigrateActivities {
  return {
    /** One thread after the other; an attempt that follows a crash finds what was done. */
    async migrateBatch(request) {
      const context = Context.current();
      const results: ThreadMigration[] = [];
      try {
        const graph = options.graphs.get(request.graph, request.to);
        for (const threadId of request.thread_ids) {
          context.cancellationSignal.throwIfAborted();
          context.heartbeat(threadId);
          const result = await migrateThread(options, graph, request, threadId).catch((error: unknown) => {
            // Deleted since it was listed.
            if (isPerdureError(error, 'THREAD_UNKNOWN')) return undefined;
            throw error;
          });
          if (result) results.push(result);
        }
        return results;
      } catch (error) {
        if (context.cancellationSignal.aborted) throw error;
        throw machineryFailure(error);
      }
    },
  };
}
