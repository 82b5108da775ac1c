import { isDeepStrictEqual } from 'node:util';
import type { CheckpointTuple } from '@langchain/langgraph-checkpoint';
import {
  prepareMigratedHead,
  withChanges,
  writeMigratedHead,
  type ChannelChanges,
  type MigratedHead,
} from '../checkpoint/migrated-head.ts';
import type { PerdureSaver } from '../checkpoint/saver.ts';
import { isPerdureError } from '../contracts/errors.ts';
import { graphRef } from '../contracts/ids.ts';
import type { MigrateRequest, MigrationOutcome, ThreadMigration } from '../contracts/migrate-workflow.ts';
import type { Database } from '../postgres/database.ts';
import { faultPoint } from '../telemetry/fault-points.ts';
import {
  lockForMigration,
  migrationCandidate,
  recordMigration,
  type MigrationCandidate,
} from '../threads/migration.ts';
import { deltaValues, lostDelta, storedForm } from './delta-values.ts';
import { isOwnChannel, misfit } from './fits-schema.ts';
import type { LoadedGraph } from './load-graphs.ts';
import { migrationPath, stepName, type ChannelValues, type MigrationStep } from './migration-path.ts';
import { whyNoPlace } from './resume-place.ts';

export type ThreadMigratorOptions = { database: Database; saver: PerdureSaver };

/** Where a thread can't be moved: what is said of it. */
class NotMoved extends Error {
  readonly outcome: MigrationOutcome;

  constructor(outcome: MigrationOutcome, reason: string) {
    super(reason);
    this.outcome = outcome;
  }
}

/**
 * Moves a thread to the version `graph`, all or nothing, or says why not. Its newest checkpoint keeps its id, with
 * new values: LangGraph derives tasks, their pending writes, subgraphs and questions from it. What it was is kept as
 * its parent.
 * @throws StorageUnavailableError | UnknownThreadError
 */
export async function migrateThread(
  options: ThreadMigratorOptions,
  graph: LoadedGraph,
  request: MigrateRequest,
  threadId: string,
): Promise<ThreadMigration> {
  const { database } = options;
  const { tenant_id: tenant, migration_id: migrationId } = request;
  const seen = await migrationCandidate(database, tenant, threadId, migrationId);
  const told = (
    outcome: MigrationOutcome,
    reason: string | null,
    changed: string[] = [],
  ): ThreadMigration => ({
    thread_id: threadId,
    from: seen.done?.from ?? seen.version,
    to: graph.version,
    outcome,
    reason,
    changed,
  });
  if (seen.done) return told('migrated', null, seen.done.changed);
  if (seen.graph !== graph.name)
    return told('refused', `it runs ${graphRef(seen.graph, seen.version)}, not ${graph.name}`);
  if (seen.version === graph.version) return told('already', `it is under ${graph.version} already`);
  try {
    if (seen.busy !== null) throw new NotMoved('busy', seen.busy);
    const path = migrationPath(graph.migrations, seen.version, graph.version);
    if (!path) throw new NotMoved('no_path', `no migration from ${seen.version}`);
    const plan = await planMigration(options, graph, seen, path);
    if (request.dry_run) return told('migrates', null, plan.changed);
    await commit(options, request, seen, path, plan);
    faultPoint('migration:committed');
    return told('migrated', null, plan.changed);
  } catch (error) {
    if (error instanceof NotMoved) return told(error.outcome, error.message);
    throw error;
  }
}

type Plan = { head: MigratedHead | undefined; changed: string[] };

async function planMigration(
  { saver }: ThreadMigratorOptions,
  graph: LoadedGraph,
  seen: MigrationCandidate,
  path: readonly MigrationStep[],
): Promise<Plan> {
  const threadId = seen.checkpoint_thread_id;
  if (seen.head_checkpoint_id === null) return { head: undefined, changed: [] };
  const at = {
    configurable: { thread_id: threadId, checkpoint_ns: '', checkpoint_id: seen.head_checkpoint_id },
  };
  // Read twice: a migration may change what it is given in place.
  const [head, given] = [await saver.getTuple(at), await saver.getTuple(at)];
  if (!head || !given) throw new NotMoved('refused', `its checkpoint ${seen.head_checkpoint_id} is gone`);
  const delta = lostDelta(graph.graph, seen.channels ?? {});
  if (delta !== undefined)
    throw new NotMoved(
      'refused',
      `values don't fit: ${delta}: it was a DeltaChannel in ${seen.version} and is none in ${graph.version}, which can't read it`,
    );
  const before = await plainValues(graph, saver, head);
  const after = await runSteps(path, await plainValues(graph, saver, given));
  const why = await misfit(graph.graph, after, new Set(Object.keys(seen.channels ?? before)));
  if (why !== undefined) throw new NotMoved('refused', `values don't fit: ${why}`);
  const changes = changesBetween(before, after);
  const set = storedForm(graph.graph, changes.set);
  const checkpoint = withChanges(head.checkpoint, { set, removed: changes.removed });
  const metadata = {
    ...head.metadata,
    source: 'update',
    graph_version: graphRef(graph.name, graph.version),
    state_version: seen.state_version + 1,
    migrated_from: graphRef(graph.name, seen.version),
  };
  const migrated: CheckpointTuple = {
    ...head,
    checkpoint,
    metadata: metadata as NonNullable<CheckpointTuple['metadata']>,
  };
  const noPlace = await whyNoPlace(graph, saver, migrated, seen.asked);
  if (noPlace !== undefined) throw new NotMoved('refused', noPlace);
  const changed = [...Object.keys(changes.set), ...changes.removed].sort();
  try {
    return {
      changed,
      head: await prepareMigratedHead(saver, threadId, head, { checkpoint, metadata, changed }),
    };
  } catch (error) {
    if (!isPerdureError(error, 'VALUE_UNSERIALIZABLE')) throw error;
    throw new NotMoved('refused', `values don't fit: ${error.message}`);
  }
}

/** What the channels of the state hold, without LangGraph's own. */
async function plainValues(
  graph: LoadedGraph,
  saver: PerdureSaver,
  head: CheckpointTuple,
): Promise<ChannelValues> {
  const stored = Object.entries(head.checkpoint.channel_values).filter(([name]) => !isOwnChannel(name));
  return { ...Object.fromEntries(stored), ...(await deltaValues(graph.graph, saver, head)) };
}

async function runSteps(path: readonly MigrationStep[], values: ChannelValues): Promise<ChannelValues> {
  let current = values;
  for (const step of path) {
    let made: unknown;
    try {
      made = await step.migrate(current);
    } catch (error) {
      const message = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
      throw new NotMoved('refused', `migration ${stepName(step)} failed: ${message}`);
    }
    if (typeof made !== 'object' || made === null || Array.isArray(made))
      throw new NotMoved('refused', `migration ${stepName(step)} gave no object of values`);
    current = Object.fromEntries(Object.entries(made).filter(([, value]) => value !== undefined));
  }
  return current;
}

function changesBetween(before: ChannelValues, after: ChannelValues): ChannelChanges {
  const set = Object.entries(after).filter(
    ([name, value]) => !(name in before) || !isDeepStrictEqual(before[name], value),
  );
  return { set: Object.fromEntries(set), removed: Object.keys(before).filter((name) => !(name in after)) };
}

async function commit(
  { database }: ThreadMigratorOptions,
  request: MigrateRequest,
  seen: MigrationCandidate,
  path: readonly MigrationStep[],
  { head, changed }: Plan,
): Promise<void> {
  const busy = await database.transaction(async (client) => {
    const why = await lockForMigration(client, database, request.tenant_id, seen);
    if (why !== null) return why;
    if (head) await writeMigratedHead(client, database, head);
    await recordMigration(client, database, request.tenant_id, seen, {
      migration_id: request.migration_id,
      to: request.to,
      path: path.map(stepName),
      checkpoint_before: head?.keptId ?? null,
      checkpoint_after: head?.headId ?? null,
      changed,
      actor: request.actor,
    });
    return null;
  });
  if (busy !== null) throw new NotMoved('busy', busy);
}
