-- A look for what has lapsed on one semaphore reads nothing of what has lapsed on others.

-- The semaphore of a request that holds permits of one only, else 0. It is a hint: a process of an
-- older version writes 0, which is right too.
ALTER TABLE lockhouse_permit_request ADD COLUMN only_semaphore_id INTEGER NOT NULL DEFAULT 0;

-- Semaphores share 256 buckets, so that a sweep can read all of them in one statement.
ALTER TABLE lockhouse_permit_request ADD COLUMN due_bucket INTEGER AS (CASE
    WHEN expires_at IS NULL THEN 1
    WHEN only_semaphore_id = 0 THEN 2
    ELSE 3 + only_semaphore_id % 256 END) VIRTUAL;

DROP INDEX lockhouse_permit_request_live_by_expiry;

CREATE INDEX lockhouse_permit_request_live_by_expiry
    ON lockhouse_permit_request (due_bucket, expires_at, created_at, only_semaphore_id)
    WHERE state = 'ACQUIRED';

DROP INDEX lockhouse_permit_request_live_by_owner;

CREATE INDEX lockhouse_permit_request_live_by_owner
    ON lockhouse_permit_request (owner, only_semaphore_id)
    WHERE state = 'ACQUIRED' AND owner IS NOT NULL;
