-- Forks: a run that begins a new branch at an older checkpoint, and what may happen outside in that branch.

ALTER TABLE runs DROP CONSTRAINT runs_kind_check;
ALTER TABLE runs ADD CONSTRAINT runs_kind_check CHECK (kind IN ('input', 'resume', 'continue', 'fork'));
-- the root checkpoint that the branch begins at, and the change that it begins with: none replays what is there
ALTER TABLE runs ADD COLUMN fork_checkpoint_id text;
ALTER TABLE runs ADD COLUMN fork_values json;
ALTER TABLE runs ADD COLUMN fork_as_node text;
-- of a fork: `recorded` asks before a new effect, `live` runs it, `dry` lets nothing happen outside
ALTER TABLE runs ADD COLUMN effects text NOT NULL DEFAULT 'recorded' CHECK (effects IN ('recorded', 'live', 'dry'));

-- the branch that the thread is on, named after the fork that began it; null on one that was never forked
ALTER TABLE threads ADD COLUMN branch_id text;
ALTER TABLE threads ADD COLUMN branch_effects text CHECK (branch_effects IN ('recorded', 'live', 'dry'));

-- the branch that the operation was asked for in
ALTER TABLE operations ADD COLUMN branch_id text;
-- where a branch has other arguments for a slot than are on record, the id of the slot; the operation has one of its own
ALTER TABLE operations ADD COLUMN slot_id text;
CREATE INDEX operations_by_slot ON operations (tenant_id, slot_id) WHERE slot_id IS NOT NULL;
