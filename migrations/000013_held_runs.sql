-- Queued input waits while the run before it asks what became of an operation.

-- a pending run that nobody may take until that is answered, or has become moot. Its
-- sequence is given anew when a run goes before it: that is the order in which a thread's runs are executed
ALTER TABLE runs ADD COLUMN held boolean NOT NULL DEFAULT false;
-- how many of the thread's runs are held; unfinished_runs leaves them out
ALTER TABLE threads ADD COLUMN held_runs integer NOT NULL DEFAULT 0 CHECK (held_runs >= 0);
CREATE INDEX threads_holding ON threads (tenant_id, thread_id) WHERE held_runs > 0;
