import { pruneThreads } from '../client/prune.ts';
import { duration } from '../contracts/duration.ts';
import type { KeptReason, ThreadPruning } from '../contracts/pruning.ts';
import { size } from './bytes.ts';
import { EXIT, UsageError } from './exit-status.ts';
import { withDatabase } from './looking.ts';
import type { Session } from './session.ts';
import { table } from './table.ts';
import { checkThreadId } from './thread-id.ts';

export type PruneCommandOptions = {
  keepLast?: number;
  olderThan?: string;
  graph?: string;
  dryRun?: boolean;
};

const WHY: Readonly<Record<KeptReason, string>> = {
  policy: 'by policy',
  head: 'where it stands',
  question: 'with a pending question',
  branch: 'at the end of a branch',
  fork: 'where branches begin',
  retry: 'where a failed run began',
  delta: 'with history of a DeltaChannel',
};

/** Deletes old checkpoints of threads, or shows what would go. @returns 0, or 1 when a thread was busy. */
export async function pruneCheckpoints(
  session: Session,
  threadIds: string[],
  options: PruneCommandOptions,
): Promise<number> {
  for (const id of threadIds) checkThreadId(id);
  if (options.keepLast === undefined && options.olderThan === undefined)
    throw new UsageError('Say what to keep: --keep-last N, --older-than AGE, or both.', {
      option: '--keep-last',
    });
  const age = options.olderThan === undefined ? undefined : duration.safeParse(options.olderThan);
  if (age && !age.success)
    throw new UsageError(`--older-than: ${age.error.issues[0]?.message ?? 'is no duration'}`, {
      option: '--older-than',
    });
  const { config } = await session.settings();
  const progress = await session.output.progress();
  const threads: ThreadPruning[] = [];
  await withDatabase(session, async (database, tenant) => {
    const asked = {
      keepLast: options.keepLast,
      olderThan: age?.data,
      threadIds: threadIds.length > 0 ? threadIds : undefined,
      graph: options.graph,
      dryRun: options.dryRun === true,
      actor: config.actor,
    };
    for await (const one of pruneThreads(database, tenant, asked)) {
      threads.push(one);
      progress(`${threads.length} threads looked at`);
    }
  });
  return show(session, options.dryRun === true, threads);
}

function show(session: Session, dryRun: boolean, threads: ThreadPruning[]): number {
  const total = (of: (one: ThreadPruning) => number) => threads.reduce((sum, one) => sum + of(one), 0);
  const busy = threads.filter(({ outcome }) => outcome === 'busy');
  const totals = {
    threads: threads.filter(({ checkpoints }) => checkpoints > 0).length,
    busy: busy.length,
    checkpoints: total((one) => one.checkpoints),
    blobs: total((one) => one.blobs),
    writes: total((one) => one.writes),
    elements: total((one) => one.elements),
    bytes: total((one) => one.bytes),
  };
  session.output.result({ dry_run: dryRun, totals, threads }, () => {
    const shown = threads.filter(({ outcome }) => outcome !== 'nothing');
    const list = table(
      ['THREAD', dryRun ? 'WOULD GO' : 'WENT', 'BYTES', 'KEPT'],
      shown.map((one) =>
        one.outcome === 'busy'
          ? [one.thread_id, '', '', 'all: a run is unfinished']
          : [one.thread_id, one.checkpoints, size(one.bytes), kept(one)],
      ),
      'no thread has checkpoints to prune',
    );
    if (totals.threads === 0) return list;
    return `${list}\n\n${totals.checkpoints} checkpoints of ${totals.threads} of ${threads.length} threads ${dryRun ? 'would go' : 'went'}, ${size(totals.bytes)}: ${totals.blobs} blobs, ${totals.writes} writes, ${totals.elements} elements.`;
  });
  return busy.length > 0 ? EXIT.failed : EXIT.done;
}

/** `10 by policy, 1 with a pending question` */
function kept({ kept: counts }: ThreadPruning): string {
  return Object.entries(counts)
    .map(([reason, count]) => `${count} ${WHY[reason as KeptReason]}`)
    .join(', ');
}
