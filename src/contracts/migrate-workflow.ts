/**
 * What the migration workflow and its activity say to each other. No schemas here: this file goes into the workflow
 * bundle.
 */

/** Temporal's name for it. It is in recorded histories: never rename. */
export const MIGRATE_WORKFLOW = 'migrateThreads';

/** Some threads of one graph that are to go on under another version of it. Runs on that version's task queue. */
export type MigrateRequest = {
  /** The same for a whole call of the command; what it has done already is reported, and not done again. */
  migration_id: string;
  tenant_id: string;
  graph: string;
  to: string;
  thread_ids: string[];
  dry_run: boolean;
  actor: string;
};

/**
 * What became of a thread, or would. `migrates` is the dry run's word for `migrated`. `busy`: a run of it is in hand.
 * `no_path`: no declared migration leads from its version. Of all but `migrated` nothing was changed.
 */
export type MigrationOutcome = 'migrates' | 'migrated' | 'refused' | 'busy' | 'no_path' | 'already';

export type ThreadMigration = {
  thread_id: string;
  from: string;
  to: string;
  outcome: MigrationOutcome;
  /** Why not; null where it went, or would go, well. */
  reason: string | null;
  /** Channels that change, are added or removed. */
  changed: string[];
};

export type MigrateActivities = {
  migrateBatch(request: MigrateRequest): Promise<ThreadMigration[]>;
};
