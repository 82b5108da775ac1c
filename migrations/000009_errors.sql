-- Runs whose node failed and is tried again, and where an answer came from.

-- nobody has the run in hand, and it may not be taken before this, unless it is to be cancelled
ALTER TABLE runs ADD COLUMN retry_at timestamptz;
-- how often each task of the thread's newest superstep failed, and the newest failure
ALTER TABLE runs ADD COLUMN retry json;
ALTER TABLE interrupts ADD COLUMN answered_from text;
