-- Templates create semaphores on first use.
CREATE TABLE lockhouse_template (
    pattern    TEXT    NOT NULL PRIMARY KEY,
    capacity   INTEGER NOT NULL CHECK (capacity >= 0),
    idle_ms    INTEGER NOT NULL CHECK (idle_ms >= 1),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Which template made the semaphore, whether an operator resized it since, and when something was granted on it. A process
-- of an older version leaves them as they are.
ALTER TABLE lockhouse_semaphore ADD COLUMN template TEXT;

ALTER TABLE lockhouse_semaphore ADD COLUMN is_resized INTEGER NOT NULL DEFAULT 0;

ALTER TABLE lockhouse_semaphore ADD COLUMN used_at INTEGER;

-- The semaphores that do not follow their template, those that nobody uses, and those that were deleted long ago. A grant
-- moves an entry of the second at most once a second.
CREATE INDEX lockhouse_semaphore_by_template
    ON lockhouse_semaphore (template, is_resized, capacity) WHERE template IS NOT NULL;

CREATE INDEX lockhouse_semaphore_by_use
    ON lockhouse_semaphore (template, used_at) WHERE template IS NOT NULL;

CREATE INDEX lockhouse_semaphore_deleted
    ON lockhouse_semaphore (deleted_at) WHERE deleted_at IS NOT NULL;
