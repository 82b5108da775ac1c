-- All tables after every migration, as `node --import tsx scripts/write-schema.ts` writes them. A test compares
-- this file with a fresh schema; it is for reading, and nothing loads it.

CREATE TABLE artifact_folders (
  tenant_id text DEFAULT 'default'::text NOT NULL,
  folder text NOT NULL,
  PRIMARY KEY (tenant_id)
);

CREATE TABLE artifact_references (
  tenant_id text DEFAULT 'default'::text NOT NULL,
  artifact_id uuid NOT NULL,
  holder_kind text NOT NULL,
  holder_id text NOT NULL,
  created_at timestamp with time zone DEFAULT now() NOT NULL,
  PRIMARY KEY (tenant_id, artifact_id, holder_kind, holder_id),
  FOREIGN KEY (tenant_id, artifact_id) REFERENCES artifacts(tenant_id, artifact_id)
);
CREATE INDEX artifact_references_holder ON artifact_references USING btree (tenant_id, holder_kind, holder_id);

CREATE TABLE artifacts (
  tenant_id text DEFAULT 'default'::text NOT NULL,
  artifact_id uuid NOT NULL,
  status text NOT NULL,
  sha256 bytea,
  size bigint,
  media_type text NOT NULL,
  name text,
  thread_id text,
  run_id uuid,
  key_id text,
  created_at timestamp with time zone DEFAULT now() NOT NULL,
  ready_at timestamp with time zone,
  erased_at timestamp with time zone,
  touched_at timestamp with time zone DEFAULT now() NOT NULL,
  PRIMARY KEY (tenant_id, artifact_id),
  CHECK ((status = ANY (ARRAY['pending'::text, 'erased'::text])) OR sha256 IS NOT NULL AND size IS NOT NULL AND ready_at IS NOT NULL),
  CHECK (length(sha256) = 32),
  CHECK (size >= 0),
  CHECK (status = ANY (ARRAY['pending'::text, 'ready'::text, 'quarantined'::text, 'erased'::text]))
);
CREATE INDEX artifacts_sha256 ON artifacts USING btree (tenant_id, sha256);
CREATE INDEX artifacts_touched ON artifacts USING btree (tenant_id, status, touched_at);
CREATE UNIQUE INDEX artifacts_ready ON artifacts USING btree (tenant_id, sha256) WHERE status = 'ready'::text;

CREATE TABLE checkpoint_blobs (
  thread_id text NOT NULL,
  checkpoint_ns text DEFAULT ''::text NOT NULL,
  channel text NOT NULL,
  version text NOT NULL,
  type text NOT NULL,
  blob bytea,
  PRIMARY KEY (thread_id, checkpoint_ns, channel, version)
);

CREATE TABLE checkpoint_elements (
  thread_id text NOT NULL,
  hash bytea NOT NULL,
  type text NOT NULL,
  blob bytea NOT NULL,
  PRIMARY KEY (thread_id, hash)
);

CREATE TABLE checkpoint_migrations (
  v integer NOT NULL,
  PRIMARY KEY (v)
);

CREATE TABLE checkpoint_writes (
  thread_id text NOT NULL,
  checkpoint_ns text DEFAULT ''::text NOT NULL,
  checkpoint_id text NOT NULL,
  task_id text NOT NULL,
  idx integer NOT NULL,
  channel text NOT NULL,
  type text,
  blob bytea NOT NULL,
  task_path text DEFAULT ''::text NOT NULL,
  PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx)
);

CREATE TABLE checkpoints (
  thread_id text NOT NULL,
  checkpoint_ns text DEFAULT ''::text NOT NULL,
  checkpoint_id text NOT NULL,
  parent_checkpoint_id text,
  type text,
  checkpoint jsonb NOT NULL,
  metadata jsonb DEFAULT '{}'::jsonb NOT NULL,
  PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id)
);

CREATE TABLE deadlines (
  tenant_id text DEFAULT 'default'::text NOT NULL,
  thread_id text NOT NULL,
  interrupt_id text NOT NULL,
  kind text NOT NULL,
  due_at timestamp with time zone NOT NULL,
  on_due json NOT NULL,
  created_at timestamp with time zone DEFAULT now() NOT NULL,
  key_id text,
  PRIMARY KEY (tenant_id, thread_id, interrupt_id),
  FOREIGN KEY (tenant_id, thread_id) REFERENCES threads(tenant_id, thread_id),
  CHECK (kind = ANY (ARRAY['interrupt'::text, 'timer'::text]))
);

CREATE TABLE graph_versions (
  tenant_id text DEFAULT 'default'::text NOT NULL,
  graph text NOT NULL,
  version text NOT NULL,
  fingerprint text NOT NULL,
  shape json NOT NULL,
  output_channels json NOT NULL,
  registered_at timestamp with time zone DEFAULT now() NOT NULL,
  PRIMARY KEY (tenant_id, graph, version)
);

CREATE TABLE interrupts (
  tenant_id text DEFAULT 'default'::text NOT NULL,
  thread_id text NOT NULL,
  interrupt_id text NOT NULL,
  sequence bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
  run_id uuid NOT NULL,
  kind text NOT NULL,
  node text NOT NULL,
  checkpoint_id text NOT NULL,
  origin_ns text NOT NULL,
  origin_checkpoint_id text NOT NULL,
  origin_task_id text NOT NULL,
  operation_id text,
  value json NOT NULL,
  status text DEFAULT 'pending'::text NOT NULL,
  answer json,
  answered_by text,
  answered_at timestamp with time zone,
  answer_run_id uuid,
  created_at timestamp with time zone DEFAULT now() NOT NULL,
  key_id text,
  due_at timestamp with time zone,
  on_due json,
  escalation_level integer DEFAULT 0 NOT NULL,
  escalations json DEFAULT '[]'::json NOT NULL,
  answered_from text,
  PRIMARY KEY (tenant_id, thread_id, interrupt_id),
  FOREIGN KEY (tenant_id, thread_id) REFERENCES threads(tenant_id, thread_id),
  CHECK (kind = ANY (ARRAY['interrupt'::text, 'operation'::text, 'timer'::text])),
  CHECK (status = ANY (ARRAY['pending'::text, 'answered'::text, 'superseded'::text, 'cancelled'::text]))
);
CREATE INDEX interrupts_by_answer_run ON interrupts USING btree (tenant_id, answer_run_id) WHERE answer_run_id IS NOT NULL;
CREATE INDEX interrupts_due ON interrupts USING btree (due_at) WHERE status = 'pending'::text AND due_at IS NOT NULL;
CREATE INDEX interrupts_pending ON interrupts USING btree (tenant_id, sequence) WHERE status = 'pending'::text;

CREATE TABLE operations (
  tenant_id text DEFAULT 'default'::text NOT NULL,
  operation_id text NOT NULL,
  sequence bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
  lineage_root text NOT NULL,
  thread_id text NOT NULL,
  run_id uuid,
  node text NOT NULL,
  tool text NOT NULL,
  tool_call_id text,
  business_key text,
  kind text NOT NULL,
  status text NOT NULL,
  args_hash text NOT NULL,
  args json NOT NULL,
  result_type text,
  result bytea,
  error json,
  attempts integer DEFAULT 0 NOT NULL,
  lease_token uuid,
  lease_until timestamp with time zone,
  created_at timestamp with time zone DEFAULT now() NOT NULL,
  started_at timestamp with time zone,
  finished_at timestamp with time zone,
  resolved_by text,
  resolved_at timestamp with time zone,
  key_id text,
  branch_id text,
  slot_id text,
  PRIMARY KEY (tenant_id, operation_id),
  CHECK (kind = ANY (ARRAY['pure'::text, 'idempotent'::text, 'reconcilable'::text, 'exclusive'::text])),
  CHECK (status = ANY (ARRAY['pending'::text, 'running'::text, 'succeeded'::text, 'failed'::text, 'unknown'::text]))
);
CREATE INDEX operations_by_slot ON operations USING btree (tenant_id, slot_id) WHERE slot_id IS NOT NULL;
CREATE INDEX operations_by_thread ON operations USING btree (tenant_id, thread_id, sequence);

CREATE TABLE perdure_migrations (
  name text NOT NULL,
  checksum text NOT NULL,
  applied_at timestamp with time zone DEFAULT now() NOT NULL,
  PRIMARY KEY (name)
);

CREATE TABLE runs (
  tenant_id text DEFAULT 'default'::text NOT NULL,
  run_id uuid NOT NULL,
  thread_id text NOT NULL,
  sequence bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
  kind text NOT NULL,
  input json,
  config json DEFAULT '{}'::json NOT NULL,
  actor text NOT NULL,
  status text DEFAULT 'pending'::text NOT NULL,
  error json,
  attempts integer DEFAULT 0 NOT NULL,
  base_checkpoint_id text,
  base_step integer,
  checkpoint_id text,
  next json,
  signalled_at timestamp with time zone,
  signals integer DEFAULT 0 NOT NULL,
  cancel_requested_at timestamp with time zone,
  created_at timestamp with time zone DEFAULT now() NOT NULL,
  started_at timestamp with time zone,
  finished_at timestamp with time zone,
  key_id text,
  fork_checkpoint_id text,
  fork_values json,
  fork_as_node text,
  effects text DEFAULT 'recorded'::text NOT NULL,
  output json,
  stop_as text,
  stopped_by uuid,
  rewound boolean DEFAULT false NOT NULL,
  version text,
  retry_at timestamp with time zone,
  retry json,
  fork_ns text,
  fork_ns_checkpoint_id text,
  held boolean DEFAULT false NOT NULL,
  PRIMARY KEY (tenant_id, run_id),
  FOREIGN KEY (tenant_id, thread_id) REFERENCES threads(tenant_id, thread_id),
  CHECK (effects = ANY (ARRAY['recorded'::text, 'live'::text, 'dry'::text])),
  CHECK (kind = ANY (ARRAY['input'::text, 'resume'::text, 'continue'::text, 'fork'::text, 'copy'::text])),
  CHECK (status = ANY (ARRAY['pending'::text, 'running'::text, 'success'::text, 'interrupted'::text, 'error'::text, 'cancelled'::text, 'rolled_back'::text])),
  CHECK (stop_as = ANY (ARRAY['interrupted'::text, 'rolled_back'::text]))
) WITH (fillfactor=70);
CREATE INDEX runs_by_thread ON runs USING btree (tenant_id, thread_id, sequence);
CREATE INDEX runs_unfinished ON runs USING btree (tenant_id, thread_id, sequence) WHERE status = ANY (ARRAY['pending'::text, 'running'::text]);

CREATE TABLE schedules (
  tenant_id text DEFAULT 'default'::text NOT NULL,
  name text NOT NULL,
  graph text NOT NULL,
  version text,
  cron text NOT NULL,
  timezone text NOT NULL,
  input json NOT NULL,
  config json DEFAULT '{}'::json NOT NULL,
  thread_id text,
  overlap text NOT NULL,
  actor text NOT NULL,
  paused boolean DEFAULT false NOT NULL,
  next_at timestamp with time zone,
  buffered_at timestamp with time zone,
  last_at timestamp with time zone,
  last_run_id uuid,
  last_thread_id text,
  skipped integer DEFAULT 0 NOT NULL,
  last_error text,
  mirrored_at timestamp with time zone,
  created_at timestamp with time zone DEFAULT now() NOT NULL,
  updated_at timestamp with time zone DEFAULT now() NOT NULL,
  deleted_at timestamp with time zone,
  key_id text,
  PRIMARY KEY (tenant_id, name),
  CHECK (overlap = ANY (ARRAY['skip'::text, 'buffer_one'::text, 'allow_all'::text]))
);
CREATE INDEX schedules_due ON schedules USING btree (next_at) WHERE next_at IS NOT NULL AND NOT paused AND deleted_at IS NULL;

CREATE TABLE task_attempts (
  tenant_id text DEFAULT 'default'::text NOT NULL,
  thread_id text NOT NULL,
  task_id text NOT NULL,
  run_id uuid NOT NULL,
  fence bigint NOT NULL,
  token uuid NOT NULL,
  attempts integer DEFAULT 1 NOT NULL,
  errors integer DEFAULT 0 NOT NULL,
  error json,
  started_at timestamp with time zone DEFAULT now() NOT NULL,
  key_id text,
  PRIMARY KEY (tenant_id, thread_id, task_id),
  FOREIGN KEY (tenant_id, thread_id) REFERENCES threads(tenant_id, thread_id)
);

CREATE TABLE thread_migrations (
  tenant_id text DEFAULT 'default'::text NOT NULL,
  migration_id uuid NOT NULL,
  thread_id text NOT NULL,
  sequence bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
  graph text NOT NULL,
  from_version text NOT NULL,
  to_version text NOT NULL,
  path json NOT NULL,
  checkpoint_before text,
  checkpoint_after text,
  changed json NOT NULL,
  actor text NOT NULL,
  migrated_at timestamp with time zone DEFAULT now() NOT NULL,
  PRIMARY KEY (tenant_id, migration_id, thread_id),
  FOREIGN KEY (tenant_id, thread_id) REFERENCES threads(tenant_id, thread_id)
);
CREATE INDEX thread_migrations_by_thread ON thread_migrations USING btree (tenant_id, thread_id, sequence);

CREATE TABLE thread_prunings (
  tenant_id text DEFAULT 'default'::text NOT NULL,
  thread_id text NOT NULL,
  sequence bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
  pruned_at timestamp with time zone DEFAULT now() NOT NULL,
  first_checkpoint_id text NOT NULL,
  last_checkpoint_id text NOT NULL,
  checkpoints integer NOT NULL,
  blobs integer NOT NULL,
  writes integer NOT NULL,
  elements integer NOT NULL,
  bytes bigint NOT NULL,
  policy json NOT NULL,
  actor text NOT NULL,
  PRIMARY KEY (tenant_id, thread_id, sequence),
  FOREIGN KEY (tenant_id, thread_id) REFERENCES threads(tenant_id, thread_id)
);

CREATE TABLE threads (
  tenant_id text DEFAULT 'default'::text NOT NULL,
  thread_id text NOT NULL,
  checkpoint_thread_id text NOT NULL,
  graph text NOT NULL,
  version text NOT NULL,
  lineage_root text NOT NULL,
  fence bigint DEFAULT 0 NOT NULL,
  head_checkpoint_id text,
  state_version integer DEFAULT 0 NOT NULL,
  status text DEFAULT 'idle'::text NOT NULL,
  unfinished_runs integer DEFAULT 0 NOT NULL,
  created_at timestamp with time zone DEFAULT now() NOT NULL,
  updated_at timestamp with time zone DEFAULT now() NOT NULL,
  deleted_at timestamp with time zone,
  key_id text,
  branch_id text,
  branch_effects text,
  rewound boolean DEFAULT false NOT NULL,
  rewound_to text,
  stray_workflow boolean DEFAULT false NOT NULL,
  copied_from text,
  copied_at text,
  in_doubt boolean DEFAULT false NOT NULL,
  held_runs integer DEFAULT 0 NOT NULL,
  PRIMARY KEY (tenant_id, thread_id),
  UNIQUE (checkpoint_thread_id),
  CHECK (branch_effects = ANY (ARRAY['recorded'::text, 'live'::text, 'dry'::text])),
  CHECK (held_runs >= 0),
  CHECK (status = ANY (ARRAY['idle'::text, 'busy'::text, 'interrupted'::text, 'error'::text])),
  CHECK (unfinished_runs >= 0)
) WITH (fillfactor=50);
CREATE INDEX threads_holding ON threads USING btree (tenant_id, thread_id) WHERE held_runs > 0;
CREATE INDEX threads_stray_workflow ON threads USING btree (tenant_id, thread_id) WHERE stray_workflow;

CREATE TABLE workers (
  tenant_id text DEFAULT 'default'::text NOT NULL,
  worker_id uuid NOT NULL,
  graph text NOT NULL,
  version text NOT NULL,
  task_queue text NOT NULL,
  host text NOT NULL,
  pid integer NOT NULL,
  started_at timestamp with time zone DEFAULT now() NOT NULL,
  seen_at timestamp with time zone DEFAULT now() NOT NULL,
  PRIMARY KEY (tenant_id, worker_id, graph, version)
);
