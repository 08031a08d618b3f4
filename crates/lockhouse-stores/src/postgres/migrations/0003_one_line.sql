-- The waiters of all processes stand in one line: an entry for each process, in the semaphore's row.
-- A process of an older version leaves it as it is.
ALTER TABLE lockhouse_semaphore ADD COLUMN line text COLLATE "C" NOT NULL DEFAULT '';
