-- A look for what has lapsed on one semaphore reads nothing of what has lapsed on others.

-- only_semaphore_id: the semaphore of a request that holds permits of one only, else 0. It is a hint:
-- a process of an older version writes 0, which is right too. Semaphores share 256 buckets, so that a
-- sweep can read all of them in one statement. All in one ALTER, so that a large table is copied once.
-- The indexes keep their names and first columns for processes of the version before.
ALTER TABLE lockhouse_permit_request
  ADD COLUMN only_semaphore_id BIGINT UNSIGNED NOT NULL DEFAULT 0,
  ADD COLUMN due_bucket SMALLINT UNSIGNED AS (CASE
    WHEN released_at IS NOT NULL THEN 0
    WHEN expires_at IS NULL THEN 1
    WHEN only_semaphore_id = 0 THEN 2
    ELSE 3 + only_semaphore_id % 256 END) STORED,
  DROP KEY due,
  ADD KEY due (state, due_bucket, due_at, created_at, only_semaphore_id),
  DROP KEY held_by,
  ADD KEY held_by (held_by, only_semaphore_id);
