import { pruneCheckpoints, type PrunedCheckpoints } from '../checkpoint/prune.ts';
import { InvalidInputError } from '../contracts/errors.ts';
import { pruningPolicy, type PruningPolicy, type ThreadPruning } from '../contracts/pruning.ts';
import type { Database } from '../postgres/database.ts';
import { lockThreadToPrune, neededCheckpoints, recordPruning } from '../threads/prunings.ts';
import { readThread } from '../threads/views.ts';

export type PruneOptions = {
  /** The newest so many root checkpoints stay, 1 to 1,000,000. */
  keepLast?: number | undefined;
  /** Root checkpoints that are not older stay; ms, or such as `'30 days'`, at most 365 days. */
  olderThan?: number | string | undefined;
  /** Only these threads. Default: all. */
  threadIds?: readonly string[] | undefined;
  /** Only threads of this graph. */
  graph?: string | undefined;
  /** Say what would go, change nothing. Default false. */
  dryRun?: boolean | undefined;
  /** Who asks, such as `user:mira`. Default `user:unknown`. */
  actor?: string | undefined;
};

/** Threads whose ids are read at a time. */
const PAGE = 500;

const NOTHING = { checkpoints: 0, blobs: 0, writes: 0, elements: 0, bytes: 0 };

/** Ends the transaction of a dry run, so that nothing of it stays. */
class DryRun extends Error {
  readonly outcome: ThreadPruning;

  constructor(outcome: ThreadPruning) {
    super('a dry run');
    this.outcome = outcome;
  }
}

/**
 * Deletes old checkpoints of threads, each thread in a transaction of its own, and tells of each as it is done. What is
 * stopped in between can be asked for again.
 * @throws InvalidInputError when nothing says what to keep; UnknownThreadError; StorageUnavailableError
 */
export async function* pruneThreads(
  database: Database,
  tenant: string,
  { keepLast, olderThan, threadIds, graph, dryRun = false, actor = 'user:unknown' }: PruneOptions,
): AsyncGenerator<ThreadPruning> {
  const parsed = pruningPolicy.safeParse({
    ...(keepLast === undefined ? {} : { keep_last: keepLast }),
    ...(olderThan === undefined ? {} : { older_than: olderThan }),
  });
  if (!parsed.success) {
    const issue = parsed.error.issues[0];
    throw new InvalidInputError(`${issue?.path.join('.') || 'policy'}: ${issue?.message ?? 'is invalid'}`);
  }
  for (const id of threadIds ?? []) await readThread(database, tenant, id);
  for await (const id of threadIds ?? allThreads(database, tenant, graph)) {
    const outcome = await pruneThread(database, tenant, id, { policy: parsed.data, graph, dryRun, actor });
    if (outcome) yield outcome;
  }
}

/** By id, so that threads which come and go in between move nothing. */
async function* allThreads(
  database: Database,
  tenant: string,
  graph: string | undefined,
): AsyncGenerator<string> {
  for (let after = ''; ;) {
    const { rows } = await database.query<{ thread_id: string }>(
      `SELECT thread_id FROM ${database.table('threads')}
       WHERE tenant_id = $1 AND thread_id > $2 AND ($3::text IS NULL OR graph = $3) AND deleted_at IS NULL
       ORDER BY thread_id LIMIT $4`,
      [tenant, after, graph ?? null, PAGE],
    );
    yield* rows.map((row) => row.thread_id);
    const last = rows.at(-1);
    if (rows.length < PAGE || last === undefined) return;
    after = last.thread_id;
  }
}

type Asked = { policy: PruningPolicy; graph: string | undefined; dryRun: boolean; actor: string };

/** @returns undefined where the thread is gone, or of another graph. */
export async function pruneThread(
  database: Database,
  tenant: string,
  threadId: string,
  asked: Asked,
): Promise<ThreadPruning | undefined> {
  try {
    return await database.transaction(async (client) => {
      const thread = await lockThreadToPrune(client, database, tenant, threadId);
      if (!thread || (asked.graph !== undefined && thread.graph !== asked.graph)) return undefined;
      const about = { thread_id: threadId, graph: thread.graph };
      // A run in hand reads and forks as it goes; one that waits may name any checkpoint.
      if (thread.unfinished_runs > 0)
        return { ...about, outcome: 'busy' as const, ...NOTHING, root_checkpoints: 0, kept: {} };
      const pruned = await pruneCheckpoints(client, database, thread.checkpoint_thread_id, {
        last: asked.policy.keep_last,
        before:
          asked.policy.older_than === undefined ? undefined : thread.now.getTime() - asked.policy.older_than,
        needed: await neededCheckpoints(client, database, tenant, threadId, thread),
      });
      const outcome = asOutcome(about, pruned, asked.dryRun);
      if (asked.dryRun) throw new DryRun(outcome);
      await recordPruning(client, database, tenant, threadId, {
        ...pruned,
        policy: asked.policy,
        actor: asked.actor,
      });
      return outcome;
    });
  } catch (error) {
    if (error instanceof DryRun) return error.outcome;
    throw error;
  }
}

function asOutcome(
  about: { thread_id: string; graph: string },
  { roots, kept, ...rows }: PrunedCheckpoints,
  dryRun: boolean,
): ThreadPruning {
  const goes = dryRun ? ('would_prune' as const) : ('pruned' as const);
  return {
    ...about,
    outcome: rows.checkpoints === 0 ? 'nothing' : goes,
    root_checkpoints: roots.length,
    kept,
    ...rows,
  };
}
