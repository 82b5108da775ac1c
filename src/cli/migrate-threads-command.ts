import { graphRef } from '../contracts/ids.ts';
import type { MigrationOutcome, ThreadMigration } from '../contracts/migrate-workflow.ts';
import { EXIT } from './exit-status.ts';
import { plain } from './output.ts';
import type { Session } from './session.ts';
import { table } from './table.ts';
import { checkThreadId } from './thread-id.ts';

export type MigrateThreadsOptions = {
  graph: string;
  to: string;
  from?: string;
  thread?: string[];
  dryRun?: boolean;
  wait?: boolean;
  worker: boolean;
};

/** How often --wait tries again, in ms. */
const AGAIN_MS = 500;

/**
 * Moves threads to another version of their graph, or shows what would happen.
 * @returns 0 when each thread has moved (or would), else 1.
 */
export async function migrateThreads(session: Session, options: MigrateThreadsOptions): Promise<number> {
  for (const id of options.thread ?? []) checkThreadId(id);
  const settings = await session.settings();
  const progress = await session.output.progress();
  const { servedBy, withRuntime } = await import('./runtime.ts');
  return withRuntime(session, settings, progress, async (runtime) => {
    if (options.worker) await servedBy(runtime, { graph: options.graph, version: options.to });
    const request = {
      graph: options.graph,
      to: options.to,
      dryRun: options.dryRun === true,
      actor: settings.config.actor,
      ...(options.from === undefined ? {} : { from: options.from }),
    };
    const results = new Map<string, ThreadMigration>();
    let wanted = options.thread;
    for (;;) {
      const asked = { ...request, ...(wanted === undefined ? {} : { threadIds: wanted }) };
      for await (const one of runtime.client.migrateThreads(asked)) {
        results.set(one.thread_id, one);
        progress(`${results.size} threads looked at`);
      }
      wanted = [...results.values()].filter(({ outcome }) => outcome === 'busy').map((one) => one.thread_id);
      if (options.wait !== true || options.dryRun === true || wanted.length === 0) break;
      progress(`waiting for ${wanted.length} busy thread${wanted.length === 1 ? '' : 's'}`);
      await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
    }
    return show(session, options, [...results.values()]);
  });
}

function show(session: Session, options: MigrateThreadsOptions, threads: ThreadMigration[]): number {
  const counts: Partial<Record<MigrationOutcome, number>> = {};
  for (const { outcome } of threads) counts[outcome] = (counts[outcome] ?? 0) + 1;
  const to = graphRef(options.graph, options.to);
  session.output.result(
    { graph: options.graph, to: options.to, dry_run: options.dryRun === true, counts, threads },
    () => {
      const list = table(
        ['THREAD', 'FROM', 'TO', 'WHAT'],
        threads.map((one) => [one.thread_id, one.from, one.to, plain(sentence(one))]),
        `no thread of ${options.graph} is under another version than ${options.to}`,
      );
      const refused = threads.length - moved(threads).length;
      if (refused === 0) return list;
      return `${list}\n\n${refused} of ${threads.length} threads ${options.dryRun === true ? 'would not go' : 'did not go'} to ${plain(to)}; nothing of them was changed. They go on under their version as long as a worker serves it.`;
    },
  );
  return moved(threads).length === threads.length ? EXIT.done : EXIT.failed;
}

function moved(threads: ThreadMigration[]): ThreadMigration[] {
  return threads.filter(({ outcome }) => ['migrated', 'migrates', 'already'].includes(outcome));
}

function sentence({ outcome, reason, changed }: ThreadMigration): string {
  switch (outcome) {
    case 'migrates':
    case 'migrated':
      return changed.length > 0 ? `${outcome}: changes ${changed.join(', ')}` : outcome;
    case 'no_path':
    case 'already':
      return reason ?? outcome;
    case 'refused':
    case 'busy':
      return `${outcome}: ${reason}`;
  }
}
