-- Listings read live requests in the order of these indexes, from where the page before ended.

-- The predicate is not that of the other indexes, so that the server takes none for the other.
CREATE INDEX lockhouse_permit_request_walk ON lockhouse_permit_request (only_semaphore_id, id)
  WHERE released_at IS NULL;

DROP INDEX lockhouse_permit_request_held_by;

CREATE INDEX lockhouse_permit_request_held_by ON lockhouse_permit_request (owner, only_semaphore_id, id)
  WHERE state = 'ACQUIRED' AND owner IS NOT NULL;
