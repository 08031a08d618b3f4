-- The waiters of all processes stand in one line: an entry for each process, in the semaphore's row.
-- A process of an older version leaves it unchanged.
ALTER TABLE lockhouse_semaphore ADD COLUMN line text COLLATE "C" NOT NULL DEFAULT '';

-- The waiters of each process, for people to read: a row for each process and semaphore.
CREATE TABLE lockhouse_waiting (
  semaphore text COLLATE "C" NOT NULL,
  process text COLLATE "C" NOT NULL,
  waiters text COLLATE "C" NOT NULL,
  written_at timestamptz NOT NULL,
  PRIMARY KEY (semaphore, process)
);

CREATE INDEX lockhouse_waiting_written ON lockhouse_waiting (written_at);
