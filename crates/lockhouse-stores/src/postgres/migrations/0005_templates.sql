-- Templates create semaphores on first use.
CREATE TABLE lockhouse_template (
  pattern text COLLATE "C" PRIMARY KEY,
  capacity integer NOT NULL CHECK (capacity >= 0),
  idle_ms bigint NOT NULL,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);

-- Which template made the semaphore, whether an operator resized it since, and when something was granted on it. A process
-- of an older version leaves them as they are.
ALTER TABLE lockhouse_semaphore
  ADD COLUMN template text COLLATE "C",
  ADD COLUMN is_resized smallint NOT NULL DEFAULT 0,
  ADD COLUMN used_at timestamptz;

-- The semaphores that do not follow their template, those that nobody uses, and those that were deleted long ago. A grant
-- moves an entry of the second at most once a second.
CREATE INDEX lockhouse_semaphore_template ON lockhouse_semaphore (template, is_resized, capacity)
  WHERE template IS NOT NULL;

CREATE INDEX lockhouse_semaphore_used ON lockhouse_semaphore (template, used_at)
  WHERE template IS NOT NULL;

CREATE INDEX lockhouse_semaphore_deleted ON lockhouse_semaphore (deleted_at)
  WHERE deleted_at IS NOT NULL;
