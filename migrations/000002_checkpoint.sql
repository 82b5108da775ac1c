-- Where a task stands in its superstep: pending writes are replayed in this order. LangGraph's PostgresSaver, which
-- makes the table, has no such column.
ALTER TABLE checkpoint_writes ADD COLUMN IF NOT EXISTS task_path text NOT NULL DEFAULT '';
