import { diffCheckpoints, type ValueChange } from '../client/diff.ts';
import { readHistory } from '../client/history.ts';
import { namespaceParts } from '../contracts/namespaces.ts';
import { readHead } from '../threads/views.ts';
import { readPrunedHistory } from '../threads/prunings.ts';
import { checkThreadId } from './thread-id.ts';
import { EXIT } from './exit-status.ts';
import { historyGraph } from './history-graph.ts';
import { withDatabase } from './looking.ts';
import { plain } from './output.ts';
import type { Session } from './session.ts';
import { cell, table, time } from './table.ts';

/** Lists a thread's checkpoints, forks as a tree. */
export async function showHistory(
  session: Session,
  threadId: string,
  { limit, subgraphs = false }: { limit: number; subgraphs?: boolean },
): Promise<number> {
  checkThreadId(threadId);
  const { checkpoints, head, pruned } = await withDatabase(session, async (database, tenant) => ({
    checkpoints: await readHistory(database, tenant, threadId, { limit, subgraphs }),
    head: await readHead(database, tenant, threadId),
    pruned: await readPrunedHistory(database, tenant, threadId),
  }));
  session.output.result({ thread_id: threadId, head_checkpoint_id: head, pruned, checkpoints }, () => {
    const roots = checkpoints.filter((entry) => entry.checkpoint_ns === '');
    const graph = new Map(historyGraph(roots).map((lines, index) => [roots[index], lines]));
    const empty = ['', '', '', '', '', '', ...(subgraphs ? [''] : [])];
    const list = table(
      ['', 'STEP', 'CHECKPOINT', 'MADE', 'SOURCE', 'VERSION', 'NEXT', ...(subgraphs ? ['SUBGRAPH'] : [])],
      checkpoints.flatMap((entry) => {
        const lines = graph.get(entry) ?? [''];
        const inside = namespaceParts(entry.checkpoint_ns).map(({ node }) => node);
        return [
          ...lines.slice(0, -1).map((line) => [line, ...empty]),
          [
            lines.at(-1) ?? '',
            entry.superstep,
            entry.checkpoint_id,
            time(entry.created_at),
            entry.checkpoint_id === head ? `${entry.source} (head)` : entry.source,
            entry.graph_version,
            entry.pending_tasks.join(', '),
            ...(subgraphs ? [inside.join('/')] : []),
          ],
        ];
      }),
      'no checkpoints yet',
    );
    if (pruned === null) return list;
    return `${list}\n\n${pruned.checkpoints} older checkpoints were pruned, last at ${time(pruned.pruned_at)}.`;
  });
  return EXIT.done;
}

/** Shows what differs between the values of two checkpoints. */
export async function showDiff(session: Session, threadId: string, a: string, b: string): Promise<number> {
  checkThreadId(threadId);
  const diff = await withDatabase(session, (database, tenant) =>
    diffCheckpoints(database, tenant, threadId, a, b),
  );
  session.output.result(diff, ({ green, red, bold }) => {
    if (diff.changes.length === 0) return 'no difference';
    return diff.changes
      .flatMap((change) => [
        bold(`${kindOf(change)} ${plain(pathText(change.path))}`),
        ...(change.before === undefined ? [] : [red(`  - ${plain(cell(JSON.stringify(change.before)))}`)]),
        ...(change.after === undefined ? [] : [green(`  + ${plain(cell(JSON.stringify(change.after)))}`)]),
      ])
      .join('\n');
  });
  return EXIT.done;
}

function kindOf({ before, after }: ValueChange): string {
  if (before === undefined) return 'added';
  return after === undefined ? 'removed' : 'changed';
}

/** `messages[3].content`; a key that is no plain word in brackets and quotes. */
function pathText(path: readonly (string | number)[]): string {
  return path
    .map((part, index) => {
      if (typeof part === 'number') return `[${part}]`;
      if (!/^[A-Za-z_$][\w$-]*$/.test(part)) return `[${JSON.stringify(part)}]`;
      return index === 0 ? part : `.${part}`;
    })
    .join('');
}
