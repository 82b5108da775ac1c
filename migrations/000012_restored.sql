-- Postgres was put back to a backup while the world went on.

-- effects of the thread may have happened of which the ledger knows nothing: a new one is looked for first
ALTER TABLE threads ADD COLUMN IF NOT EXISTS in_doubt boolean NOT NULL DEFAULT false;
