-- The waiters of all processes stand in one line: an entry for each process, in the semaphore's row.
-- A process of an older version leaves it unchanged.
ALTER TABLE lockhouse_semaphore ADD COLUMN line TEXT NOT NULL DEFAULT '';

-- The waiters of each process, for people to read: a row for each process and semaphore.
CREATE TABLE lockhouse_waiting (
    semaphore  TEXT    NOT NULL,
    process    TEXT    NOT NULL,
    waiters    TEXT    NOT NULL,
    written_at INTEGER NOT NULL,
    PRIMARY KEY (semaphore, process)
) STRICT, WITHOUT ROWID;

CREATE INDEX lockhouse_waiting_by_time ON lockhouse_waiting (written_at);
