-- The waiters of all processes stand in one line: an entry for each process, in the semaphore's row.
-- A process of an older version leaves it unchanged.
ALTER TABLE lockhouse_semaphore
  ADD COLUMN line VARCHAR(21000) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '';

-- The waiters of each process, for people to read: a row for each process and semaphore.
CREATE TABLE IF NOT EXISTS lockhouse_waiting (
  semaphore VARCHAR(255) NOT NULL,
  process CHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  waiters MEDIUMTEXT NOT NULL,
  written_at DATETIME(6) NOT NULL,
  PRIMARY KEY (semaphore, process),
  KEY written (written_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE={collation};
