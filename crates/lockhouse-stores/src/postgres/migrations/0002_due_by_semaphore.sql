-- A look for what has lapsed on one semaphore reads nothing of what has lapsed on others.

-- The semaphore of a request that holds permits of one only, else 0. It is a hint: a process of an
-- older version writes 0, which is right too.
ALTER TABLE lockhouse_permit_request ADD COLUMN only_semaphore_id bigint NOT NULL DEFAULT 0;

-- Semaphores share 256 buckets, so that a sweep can read all of them in one statement. The expression
-- is the one of the queries.
CREATE INDEX lockhouse_permit_request_due ON lockhouse_permit_request
  ((CASE WHEN expires_at IS NULL THEN 1 WHEN only_semaphore_id=0 THEN 2 ELSE 3+only_semaphore_id%256 END),
    expires_at, created_at, only_semaphore_id)
  WHERE state = 'ACQUIRED';

DROP INDEX lockhouse_permit_request_live;

CREATE INDEX lockhouse_permit_request_held_by ON lockhouse_permit_request (owner, only_semaphore_id)
  WHERE state = 'ACQUIRED' AND owner IS NOT NULL;

DROP INDEX lockhouse_permit_request_owned;
