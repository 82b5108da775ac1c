-- Large things, kept as objects on disk or in S3. Here is what they are and who needs them; the bytes are elsewhere.

-- Where the objects of a tenant lie. Part of the name is random, so that no two tenants, schemas or databases that
-- share a folder or a bucket meet there.
CREATE TABLE artifact_folders (
  tenant_id text PRIMARY KEY DEFAULT 'default',
  folder text NOT NULL
);

-- The bytes of a ready or quarantined artifact lie under their hash, those of a pending one under its id. Whoever puts
-- bytes under a hash, or takes them away, holds the advisory lock of that hash and decides by these rows.
CREATE TABLE artifacts (
  tenant_id text NOT NULL DEFAULT 'default',
  artifact_id uuid NOT NULL,
  status text NOT NULL CHECK (status IN ('pending', 'ready', 'quarantined', 'erased')),
  -- null until the upload is complete
  sha256 bytea CHECK (length(sha256) = 32),
  size bigint CHECK (size >= 0),
  media_type text NOT NULL,
  name text,
  -- what made it
  thread_id text,
  run_id uuid,
  -- the key that sealed the bytes; null: none
  key_id text,
  created_at timestamptz NOT NULL DEFAULT now(),
  ready_at timestamptz,
  erased_at timestamptz,
  -- when somebody last put the same bytes, or stopped needing them: gc counts from here
  touched_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, artifact_id),
  CHECK (status IN ('pending', 'erased') OR (sha256 IS NOT NULL AND size IS NOT NULL AND ready_at IS NOT NULL))
);
CREATE UNIQUE INDEX artifacts_ready ON artifacts (tenant_id, sha256) WHERE status = 'ready';
CREATE INDEX artifacts_sha256 ON artifacts (tenant_id, sha256);
CREATE INDEX artifacts_touched ON artifacts (tenant_id, status, touched_at);

-- Who needs an artifact: while there is one, gc leaves it.
CREATE TABLE artifact_references (
  tenant_id text NOT NULL DEFAULT 'default',
  artifact_id uuid NOT NULL,
  holder_kind text NOT NULL,
  holder_id text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, artifact_id, holder_kind, holder_id),
  FOREIGN KEY (tenant_id, artifact_id) REFERENCES artifacts (tenant_id, artifact_id)
);
CREATE INDEX artifact_references_holder ON artifact_references (tenant_id, holder_kind, holder_id);
