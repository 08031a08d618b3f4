-- Listings read live requests in the order of these indexes, from where the page before ended.

CREATE INDEX lockhouse_permit_request_walk ON lockhouse_permit_request (only_semaphore_id, id)
  WHERE state = 'ACQUIRED';

DROP INDEX lockhouse_permit_request_held_by;

CREATE INDEX lockhouse_permit_request_held_by ON lockhouse_permit_request (owner, only_semaphore_id, id)
  WHERE state = 'ACQUIRED' AND owner IS NOT NULL;
