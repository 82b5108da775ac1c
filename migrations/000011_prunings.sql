-- What was pruned of threads. A pruning is an event: it happened once, and this is what went.

CREATE TABLE thread_prunings (
  tenant_id text NOT NULL DEFAULT 'default',
  thread_id text NOT NULL,
  sequence bigint GENERATED ALWAYS AS IDENTITY,
  pruned_at timestamptz NOT NULL DEFAULT now(),
  -- the oldest and the newest root checkpoint that went; others between them may be there still
  first_checkpoint_id text NOT NULL,
  last_checkpoint_id text NOT NULL,
  -- rows that went of each table, and the bytes of their values as they were stored
  checkpoints integer NOT NULL,
  blobs integer NOT NULL,
  writes integer NOT NULL,
  elements integer NOT NULL,
  bytes bigint NOT NULL,
  -- what was asked to be kept
  policy json NOT NULL,
  actor text NOT NULL,
  PRIMARY KEY (tenant_id, thread_id, sequence),
  FOREIGN KEY (tenant_id, thread_id) REFERENCES threads (tenant_id, thread_id)
);
