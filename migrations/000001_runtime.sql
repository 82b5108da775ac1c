-- Threads, runs, interrupts, operations, and who serves what. LangGraph's own tables (checkpoints,
-- checkpoint_blobs, checkpoint_writes, checkpoint_migrations) are made by its PostgresSaver before this runs.
-- Payloads are `json`, not `jsonb`: the text is kept as it came, so \u0000 and half surrogates survive.

CREATE TABLE graph_versions (
  tenant_id text NOT NULL DEFAULT 'default',
  graph text NOT NULL,
  version text NOT NULL,
  fingerprint text NOT NULL,
  -- nodes, edges and channels, as fingerprinted
  shape json NOT NULL,
  -- the channels that make up a run's output: a name, or an array of names
  output_channels json NOT NULL,
  registered_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, graph, version)
);

CREATE TABLE threads (
  tenant_id text NOT NULL DEFAULT 'default',
  thread_id text NOT NULL,
  -- the key of this thread in LangGraph's tables, which know no tenant
  checkpoint_thread_id text NOT NULL UNIQUE,
  graph text NOT NULL,
  version text NOT NULL,
  -- the thread this one was forked or copied from, at the root of the line; names its operations
  lineage_root text NOT NULL,
  -- only the attempt that took the newest fence may write checkpoints
  fence bigint NOT NULL DEFAULT 0,
  head_checkpoint_id text,
  state_version integer NOT NULL DEFAULT 0,
  status text NOT NULL DEFAULT 'idle' CHECK (status IN ('idle', 'busy', 'interrupted', 'error')),
  -- how many runs are pending or running; kept here so that one row lock decides who may come next
  unfinished_runs integer NOT NULL DEFAULT 0 CHECK (unfinished_runs >= 0),
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now(),
  -- a deleted thread keeps this row, so that nothing writes it back to life
  deleted_at timestamptz,
  key_id text,
  PRIMARY KEY (tenant_id, thread_id)
) WITH (fillfactor = 50);

CREATE TABLE runs (
  tenant_id text NOT NULL DEFAULT 'default',
  run_id uuid NOT NULL,
  thread_id text NOT NULL,
  -- the order in which a thread's runs were asked for
  sequence bigint GENERATED ALWAYS AS IDENTITY,
  kind text NOT NULL CHECK (kind IN ('input', 'resume', 'continue')),
  input json,
  config json NOT NULL DEFAULT '{}',
  actor text NOT NULL,
  status text NOT NULL DEFAULT 'pending'
    CHECK (status IN ('pending', 'running', 'success', 'interrupted', 'error', 'cancelled')),
  error json,
  -- attempts of segments: 1 in an undisturbed run of one segment
  attempts integer NOT NULL DEFAULT 0,
  -- the thread's newest checkpoint when the run began, and when it ended
  base_checkpoint_id text,
  base_step integer,
  checkpoint_id text,
  -- the nodes that come next where the run was interrupted
  next json,
  -- when the thread's workflow was last woken for this run, and how often
  signalled_at timestamptz,
  signals integer NOT NULL DEFAULT 0,
  cancel_requested_at timestamptz,
  created_at timestamptz NOT NULL DEFAULT now(),
  started_at timestamptz,
  finished_at timestamptz,
  key_id text,
  PRIMARY KEY (tenant_id, run_id),
  FOREIGN KEY (tenant_id, thread_id) REFERENCES threads (tenant_id, thread_id)
) WITH (fillfactor = 70);
CREATE INDEX runs_by_thread ON runs (tenant_id, thread_id, sequence);
CREATE INDEX runs_unfinished ON runs (tenant_id, thread_id, sequence) WHERE status IN ('pending', 'running');

CREATE TABLE interrupts (
  tenant_id text NOT NULL DEFAULT 'default',
  thread_id text NOT NULL,
  interrupt_id text NOT NULL,
  sequence bigint GENERATED ALWAYS AS IDENTITY,
  -- the run that asked
  run_id uuid NOT NULL,
  kind text NOT NULL CHECK (kind IN ('interrupt', 'operation')),
  node text NOT NULL,
  -- the thread's newest root checkpoint when it was asked: the answer is for that one alone
  checkpoint_id text NOT NULL,
  -- the row of checkpoint_writes that asks
  origin_ns text NOT NULL,
  origin_checkpoint_id text NOT NULL,
  origin_task_id text NOT NULL,
  operation_id text,
  value json NOT NULL,
  status text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'answered', 'superseded', 'cancelled')),
  answer json,
  answered_by text,
  answered_at timestamptz,
  -- the run that carries the answer
  answer_run_id uuid,
  created_at timestamptz NOT NULL DEFAULT now(),
  key_id text,
  PRIMARY KEY (tenant_id, thread_id, interrupt_id),
  FOREIGN KEY (tenant_id, thread_id) REFERENCES threads (tenant_id, thread_id)
);
CREATE INDEX interrupts_pending ON interrupts (tenant_id, sequence) WHERE status = 'pending';
CREATE INDEX interrupts_by_answer_run ON interrupts (tenant_id, answer_run_id) WHERE answer_run_id IS NOT NULL;

CREATE TABLE operations (
  tenant_id text NOT NULL DEFAULT 'default',
  operation_id text NOT NULL,
  sequence bigint GENERATED ALWAYS AS IDENTITY,
  lineage_root text NOT NULL,
  thread_id text NOT NULL,
  run_id uuid,
  node text NOT NULL,
  tool text NOT NULL,
  tool_call_id text,
  business_key text,
  kind text NOT NULL CHECK (kind IN ('pure', 'idempotent', 'reconcilable', 'exclusive')),
  status text NOT NULL CHECK (status IN ('pending', 'running', 'succeeded', 'failed', 'unknown')),
  args_hash text NOT NULL,
  args json NOT NULL,
  -- the result as the checkpoint serializer wrote it, so that a ToolMessage comes back as one
  result_type text,
  result bytea,
  error json,
  attempts integer NOT NULL DEFAULT 0,
  -- while `running`: who runs it, and until when that is believed
  lease_token uuid,
  lease_until timestamptz,
  created_at timestamptz NOT NULL DEFAULT now(),
  started_at timestamptz,
  finished_at timestamptz,
  resolved_by text,
  resolved_at timestamptz,
  key_id text,
  PRIMARY KEY (tenant_id, operation_id)
);
CREATE INDEX operations_by_thread ON operations (tenant_id, thread_id, sequence);

CREATE TABLE workers (
  tenant_id text NOT NULL DEFAULT 'default',
  worker_id uuid NOT NULL,
  graph text NOT NULL,
  version text NOT NULL,
  task_queue text NOT NULL,
  host text NOT NULL,
  pid integer NOT NULL,
  started_at timestamptz NOT NULL DEFAULT now(),
  seen_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, worker_id, graph, version)
);
