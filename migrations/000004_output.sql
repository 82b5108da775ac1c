-- The output of runs whose graph keeps some of it in a DeltaChannel: a checkpoint holds only its changes, and what
-- puts them together is in the graph's code. Null for all others, whose output is read from the checkpoint.
ALTER TABLE runs ADD COLUMN output json;
