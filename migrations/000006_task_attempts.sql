-- Tasks that run as activities of their own, while their superstep is under way. Two attempts of one task can be alive
-- at once (a worker that was thought dead); only the one whose token stands here may store the task's writes.
CREATE TABLE task_attempts (
  tenant_id text NOT NULL DEFAULT 'default',
  thread_id text NOT NULL,
  task_id text NOT NULL,
  run_id uuid NOT NULL,
  -- the fence of the segment that handed the task out
  fence bigint NOT NULL,
  token uuid NOT NULL,
  -- attempts that began, and those that ended in an error of the node, in this run
  attempts integer NOT NULL DEFAULT 1,
  errors integer NOT NULL DEFAULT 0,
  error json,
  started_at timestamptz NOT NULL DEFAULT now(),
  key_id text,
  PRIMARY KEY (tenant_id, thread_id, task_id),
  FOREIGN KEY (tenant_id, thread_id) REFERENCES threads (tenant_id, thread_id)
);
