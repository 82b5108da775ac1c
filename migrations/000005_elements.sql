-- The large parts of what checkpoint_blobs and checkpoint_writes hold (messages, documents, long strings, pieces of long
-- lists), once per thread under the hash of what they hold. A value or an element that refers to some has the type
-- 'perdure-refs', and its blob begins with their hashes: src/checkpoint/element.ts.
--
-- Whoever deletes from this table keeps to two rules:
-- 1. An element stays as long as a blob, a write or another element of its thread refers to it.
-- 2. The transaction that deletes some of a thread raises the thread's fence first (`UPDATE threads SET fence = fence + 1`),
--    so that it waits for the writers of the thread, and none goes on that knows of elements which are gone.
-- Besides, a statement that counts on elements which it doesn't bring is refused while one that it names is missing.
CREATE TABLE IF NOT EXISTS checkpoint_elements (
  thread_id text NOT NULL,
  -- 20 bytes of a SHA-256; the first bit is set where the element itself refers to others
  hash bytea NOT NULL,
  -- 'text' a string as it stands, 'perdure-json', 'perdure-refs'
  type text NOT NULL,
  blob bytea NOT NULL,
  PRIMARY KEY (thread_id, hash)
);
