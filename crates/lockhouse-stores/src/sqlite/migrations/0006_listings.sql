-- Listings read live requests in the order of this index and of lockhouse_permit_request_live_by_owner, from where
-- the page before ended. An index ends with the id of the row.
DROP INDEX lockhouse_permit_request_live;

CREATE INDEX lockhouse_permit_request_live
    ON lockhouse_permit_request (only_semaphore_id) WHERE state = 'ACQUIRED';
