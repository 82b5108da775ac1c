-- Copies of threads, and forks that begin inside a subgraph.

ALTER TABLE runs DROP CONSTRAINT runs_kind_check;
ALTER TABLE runs ADD CONSTRAINT runs_kind_check CHECK (kind IN ('input', 'resume', 'continue', 'fork', 'copy'));
-- of a fork inside a subgraph: the subgraph's namespace, and the checkpoint there that it begins at.
-- fork_checkpoint_id is the root checkpoint above it
ALTER TABLE runs ADD COLUMN fork_ns text;
ALTER TABLE runs ADD COLUMN fork_ns_checkpoint_id text;

-- the thread that this one is a copy of, and the root checkpoint that it was copied at
ALTER TABLE threads ADD COLUMN copied_from text;
ALTER TABLE threads ADD COLUMN copied_at text;
