import { randomUUID } from 'node:crypto';
import { WorkflowFailedError, type Client } from '@temporalio/client';
import {
  InvalidInputError,
  PerdureError,
  UnknownGraphError,
  VersionNotServedError,
} from '../contracts/errors.ts';
import { graphRef, graphTaskQueue, migrateWorkflowId } from '../contracts/ids.ts';
import {
  MIGRATE_WORKFLOW,
  type MigrateRequest,
  type ThreadMigration,
} from '../contracts/migrate-workflow.ts';
import type { Database } from '../postgres/database.ts';
import { listGraphVersions } from '../threads/graph-versions.ts';
import { threadsToMigrate } from '../threads/migration.ts';
import { readThread } from '../threads/views.ts';
import { temporalError } from './wake.ts';

export type MigrateOptions = {
  graph: string;
  /** The version to go to. A worker has to serve it: the migrations are in its code. */
  to: string;
  /** Only threads of this version. Default: of any other. */
  from?: string;
  /** Only these threads. Default: all of the graph. */
  threadIds?: string[];
  /** Say what would happen, change nothing. Default false. */
  dryRun?: boolean;
  /** Who asks, such as `user:mira`. Default `user:unknown`. */
  actor?: string;
};

/** Threads that one workflow moves: its history holds one line on each. */
const BATCH = 100;
/** Workflows at a time. */
const PARALLEL = 4;
const TASK_TIMEOUT = '5 seconds';

export type MigrateParts = { database: Database; temporal: Client; tenant: string };

/**
 * Moves threads to another version, each all or nothing, and tells of each as it is done. What is stopped in between
 * can be asked for again.
 * @throws InvalidInputError | UnknownGraphError | UnknownThreadError | VersionNotServedError | TemporalUnavailableError
 */
export async function* migrateThreads(
  parts: MigrateParts,
  options: MigrateOptions,
): AsyncGenerator<ThreadMigration> {
  await requireServed(parts, options);
  const migrationId = randomUUID();
  let under: Promise<ThreadMigration[]>[] = [];
  for await (const threadIds of batches(parts, options)) {
    under.push(runBatch(parts, options, migrationId, threadIds));
    if (under.length < PARALLEL) continue;
    for (const results of await Promise.all(under)) yield* results;
    under = [];
  }
  for (const results of await Promise.all(under)) yield* results;
}

async function* batches(
  { database, tenant }: MigrateParts,
  options: MigrateOptions,
): AsyncGenerator<string[]> {
  const { graph, to, from, threadIds } = options;
  if (threadIds !== undefined) {
    const wanted = [...new Set(threadIds)];
    const threads = await Promise.all(wanted.map((id) => readThread(database, tenant, id)));
    const chosen = threads.filter(({ version }) => from === undefined || version === from);
    for (let at = 0; at < chosen.length; at += BATCH)
      yield chosen.slice(at, at + BATCH).map(({ thread_id }) => thread_id);
    return;
  }
  for (let after = ''; ;) {
    const page = await threadsToMigrate(database, tenant, { graph, to, from, after, limit: BATCH });
    if (page.length > 0) yield page;
    if (page.length < BATCH) return;
    after = page.at(-1) ?? '';
  }
}

async function requireServed(
  { database, tenant }: MigrateParts,
  { graph, to, from }: MigrateOptions,
): Promise<void> {
  const versions = (await listGraphVersions(database, tenant)).filter((one) => one.graph === graph);
  const known = versions.map(({ version }) => version);
  if (from === to)
    throw new InvalidInputError(`from and to are both ${to}: there is nothing to migrate.`, { to });
  for (const version of [to, ...(from === undefined ? [] : [from])])
    if (!known.includes(version))
      throw new UnknownGraphError(
        known.length === 0
          ? `No graph '${graph}' is known. Name it in langgraph.json; 'perdure doctor' lists those that are.`
          : `Graph '${graph}' has no version '${version}'; known: ${known.join(', ')}.`,
        { graph, known },
      );
  if (versions.some(({ version, workers }) => version === to && workers > 0)) return;
  throw new VersionNotServedError(graphRef(graph, to), { graph, version: to });
}

async function runBatch(
  { database, temporal, tenant }: MigrateParts,
  { graph, to, dryRun = false, actor = 'user:unknown' }: MigrateOptions,
  migrationId: string,
  threadIds: string[],
): Promise<ThreadMigration[]> {
  const { schema } = database;
  const request: MigrateRequest = {
    migration_id: migrationId,
    tenant_id: tenant,
    graph,
    to,
    thread_ids: threadIds,
    dry_run: dryRun,
    actor,
  };
  try {
    return (await temporal.workflow.execute(MIGRATE_WORKFLOW, {
      workflowId: migrateWorkflowId(schema, graph, to, randomUUID()),
      taskQueue: graphTaskQueue(schema, graph, to),
      args: [request],
      workflowTaskTimeout: TASK_TIMEOUT,
      staticSummary: `${threadIds.length} threads to ${graphRef(graph, to)}`,
    })) as ThreadMigration[];
  } catch (error) {
    if (!(error instanceof WorkflowFailedError)) throw temporalError(error);
    throw new PerdureError(
      'MIGRATION_STOPPED',
      `The migration to ${graphRef(graph, to)} was stopped from outside. What it has done stays; ask for it again for the rest.`,
      { graph, version: to },
      { cause: error },
    );
  }
}
