-- Time and double-texting: runs that newer input stopped, deadlines of questions, sleeping threads, schedules.

ALTER TABLE runs DROP CONSTRAINT runs_status_check;
ALTER TABLE runs ADD CONSTRAINT runs_status_check
  CHECK (status IN ('pending', 'running', 'success', 'interrupted', 'error', 'cancelled', 'rolled_back'));
-- how a run ends that newer input stops, and the run that stopped it; null: it ends by itself, or as `cancelled`
ALTER TABLE runs ADD COLUMN stop_as text CHECK (stop_as IN ('interrupted', 'rolled_back'));
ALTER TABLE runs ADD COLUMN stopped_by uuid;
-- the run begins at fork_checkpoint_id (null: with an empty state), since the runs before it were rolled back
ALTER TABLE runs ADD COLUMN rewound boolean NOT NULL DEFAULT false;
-- the thread stands at an older checkpoint than its head, until a run has moved on from there; null: before its first one
ALTER TABLE threads ADD COLUMN rewound boolean NOT NULL DEFAULT false;
ALTER TABLE threads ADD COLUMN rewound_to text;

-- a question of the kind `timer` asks nobody: the runtime answers it when it is due
ALTER TABLE interrupts DROP CONSTRAINT interrupts_kind_check;
ALTER TABLE interrupts ADD CONSTRAINT interrupts_kind_check CHECK (kind IN ('interrupt', 'operation', 'timer'));
-- when something happens though nobody has answered, and what (contracts/deadlines.ts); null: never
ALTER TABLE interrupts ADD COLUMN due_at timestamptz;
ALTER TABLE interrupts ADD COLUMN on_due json;
-- how often it was escalated; and to whom and when
ALTER TABLE interrupts ADD COLUMN escalation_level integer NOT NULL DEFAULT 0;
ALTER TABLE interrupts ADD COLUMN escalations json NOT NULL DEFAULT '[]';
CREATE INDEX interrupts_due ON interrupts (due_at) WHERE status = 'pending' AND due_at IS NOT NULL;

-- what a node asked for together with its question, fixed the first time it asked
CREATE TABLE deadlines (
  tenant_id text NOT NULL DEFAULT 'default',
  thread_id text NOT NULL,
  interrupt_id text NOT NULL,
  kind text NOT NULL CHECK (kind IN ('interrupt', 'timer')),
  due_at timestamptz NOT NULL,
  on_due json NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  key_id text,
  PRIMARY KEY (tenant_id, thread_id, interrupt_id),
  FOREIGN KEY (tenant_id, thread_id) REFERENCES threads (tenant_id, thread_id)
);

CREATE TABLE schedules (
  tenant_id text NOT NULL DEFAULT 'default',
  name text NOT NULL,
  graph text NOT NULL,
  -- null: the newest one when a run is due
  version text,
  cron text NOT NULL,
  timezone text NOT NULL,
  input json NOT NULL,
  config json NOT NULL DEFAULT '{}',
  -- null: a new thread for every run
  thread_id text,
  overlap text NOT NULL CHECK (overlap IN ('skip', 'buffer_one', 'allow_all')),
  actor text NOT NULL,
  paused boolean NOT NULL DEFAULT false,
  -- the next occurrence, and the one that waits for the run before it; null where there is none
  next_at timestamptz,
  buffered_at timestamptz,
  -- the newest occurrence that began a run, and that run
  last_at timestamptz,
  last_run_id uuid,
  last_thread_id text,
  -- occurrences that began no run, since the one before was under way or they were missed too long ago
  skipped integer NOT NULL DEFAULT 0,
  -- why the newest occurrence could begin no run
  last_error text,
  -- when Temporal was last told of it; null: it has yet to be
  mirrored_at timestamptz,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now(),
  -- kept until Temporal has been told of it
  deleted_at timestamptz,
  key_id text,
  PRIMARY KEY (tenant_id, name)
);
CREATE INDEX schedules_due ON schedules (next_at) WHERE next_at IS NOT NULL AND NOT paused AND deleted_at IS NULL;
