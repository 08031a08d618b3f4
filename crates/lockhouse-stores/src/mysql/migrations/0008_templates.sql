-- Templates create semaphores on first use.

CREATE TABLE IF NOT EXISTS lockhouse_template (
  pattern VARCHAR(255) NOT NULL,
  capacity INT UNSIGNED NOT NULL,
  idle_ms BIGINT UNSIGNED NOT NULL,
  created_at DATETIME(6) NOT NULL,
  updated_at DATETIME(6) NOT NULL,
  PRIMARY KEY (pattern)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE={collation};

-- Which template made the semaphore, whether an operator resized it since, and when something was granted on it. A process
-- of an older version leaves them as they are. The indexes find the semaphores that do not follow their template, those that
-- nobody uses, and those that were deleted long ago. A grant moves an entry of the second at most once a second.
ALTER TABLE lockhouse_semaphore
  ADD COLUMN template VARCHAR(255) CHARACTER SET utf8mb4 COLLATE {collation} NULL,
  ADD COLUMN is_resized TINYINT UNSIGNED NOT NULL DEFAULT 0,
  ADD COLUMN used_at DATETIME(6) NULL,
  ADD KEY template (template, is_resized, capacity),
  ADD KEY used (template, used_at),
  ADD KEY deleted (deleted_at);
