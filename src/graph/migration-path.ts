import { GraphLoadError } from '../contracts/errors.ts';
import { graphVersion } from '../contracts/ids.ts';

/** The values of a thread's channels, by name; LangGraph's own channels are not among them. */
export type ChannelValues = Record<string, unknown>;

/**
 * Makes a thread's values fit the next version: gives all of them, changed or not. Called once for each thread that
 * moves, but also by a dry run, so it must do nothing else.
 */
export type Migration = (values: ChannelValues) => ChannelValues | Promise<ChannelValues>;

/** Migrations by what they lead from and to, such as `'17->18'`. */
export type Migrations = Readonly<Record<string, Migration>>;

export type MigrationStep = { from: string; to: string; migrate: Migration };

/** @throws GraphLoadError when a key is not `from->to`, or a value no function. */
export function migrationSteps(graph: string, migrations: unknown): MigrationStep[] {
  if (typeof migrations !== 'object' || migrations === null)
    throw new GraphLoadError(
      `The migrations of '${graph}' have to be an object, such as { '17->18': (values) => values }.`,
      { graph },
    );
  return Object.entries(migrations).map(([key, migrate]: [string, unknown]) => {
    // A version may end in '-', but has no '>'.
    const arrow = key.lastIndexOf('->');
    const from = graphVersion.safeParse(key.slice(0, Math.max(arrow, 0)).trim());
    const to = graphVersion.safeParse(key.slice(arrow + 2).trim());
    if (arrow < 0 || !from.success || !to.success || from.data === to.data)
      throw new GraphLoadError(
        `Migration '${key}' of '${graph}' does not say from which version to which: call it such as '17->18'.`,
        { graph, migration: key },
      );
    if (typeof migrate !== 'function')
      throw new GraphLoadError(`Migration '${key}' of '${graph}' is no function.`, { graph, migration: key });
    return { from: from.data, to: to.data, migrate: migrate as Migration };
  });
}

/** The fewest steps that lead from one version to another; undefined when none do. */
export function migrationPath(
  steps: readonly MigrationStep[],
  from: string,
  to: string,
): MigrationStep[] | undefined {
  const reached = new Map<string, MigrationStep[]>([[from, []]]);
  // A map is walked in the order in which it grows: breadth first.
  for (const [version, path] of reached) {
    if (version === to) return path;
    for (const step of steps)
      if (step.from === version && !reached.has(step.to)) reached.set(step.to, [...path, step]);
  }
  return undefined;
}

export function stepName({ from, to }: MigrationStep): string {
  return `${from}->${to}`;
}
