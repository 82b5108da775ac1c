/** What is drawn of a checkpoint: itself, and the one it was made from. */
export type Drawn = { checkpoint_id: string; parent_checkpoint_id: string | null };

/**
 * Lines that show how checkpoints descend from each other, as `git log --graph` does, for a list with the newest
 * first. Of the texts of an entry the last stands on its own line; those before it join branches that begin at it.
 */
export function historyGraph(entries: readonly Drawn[]): string[][] {
  /** Each column waits for the checkpoint that its line leads down to; null where it is free. */
  const columns: (string | null)[] = [];
  return entries.map(({ checkpoint_id: id, parent_checkpoint_id: parent }) => {
    const joined = columns.flatMap((waits, index) => (waits === id ? [index] : []));
    const own = joined[0] ?? freeColumn(columns);
    const texts: string[] = [];
    for (const from of joined.slice(1).toReversed()) {
      texts.push(join(columns, own, from));
      columns[from] = null;
    }
    columns[own] = id;
    texts.push(columns.map((waits, index) => (index === own ? '*' : waits === null ? ' ' : '|')).join(' '));
    columns[own] = parent;
    return texts.map((text) => text.trimEnd());
  });
}

function freeColumn(columns: readonly (string | null)[]): number {
  const free = columns.indexOf(null);
  return free === -1 ? columns.length : free;
}

/** `|/` from a column to the one beside it, `|_|/` over those between. */
function join(columns: readonly (string | null)[], to: number, from: number): string {
  return columns
    .map((waits, index) => {
      const line = waits === null ? ' ' : '|';
      if (index < to || index > from) return `${line} `;
      if (index === from) return '  ';
      if (index === from - 1) return `${line}/`;
      return `${line}_`;
    })
    .join('');
}
