-- A permit is live when its request is. To say so in its own row too made every release write
-- that row, and an index of it.
DROP INDEX lockhouse_permit_live_by_semaphore;

ALTER TABLE lockhouse_permit DROP COLUMN state;
