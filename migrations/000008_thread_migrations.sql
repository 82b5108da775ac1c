-- Threads that cross from one version of their graph to another, and the workflow that then sits on the wrong queue.

-- an open workflow of the thread may still sit on another version's task queue; the sweeper ends it, and wakes anew
ALTER TABLE threads ADD COLUMN stray_workflow boolean NOT NULL DEFAULT false;
CREATE INDEX threads_stray_workflow ON threads (tenant_id, thread_id) WHERE stray_workflow;

-- the version that the run ended under, where its thread has moved since; null: the thread's
ALTER TABLE runs ADD COLUMN version text;

-- a migration is an event: it happened once, and this is what it did
CREATE TABLE thread_migrations (
  tenant_id text NOT NULL DEFAULT 'default',
  migration_id uuid NOT NULL,
  thread_id text NOT NULL,
  sequence bigint GENERATED ALWAYS AS IDENTITY,
  graph text NOT NULL,
  from_version text NOT NULL,
  to_version text NOT NULL,
  -- the steps that ran, such as ["17->18", "18->19"]
  path json NOT NULL,
  -- the thread's state as it was, and as it is; null on a thread that had none
  checkpoint_before text,
  checkpoint_after text,
  -- channels that it changed, added or removed
  changed json NOT NULL,
  actor text NOT NULL,
  migrated_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, migration_id, thread_id),
  FOREIGN KEY (tenant_id, thread_id) REFERENCES threads (tenant_id, thread_id)
);
CREATE INDEX thread_migrations_by_thread ON thread_migrations (tenant_id, thread_id, sequence);
