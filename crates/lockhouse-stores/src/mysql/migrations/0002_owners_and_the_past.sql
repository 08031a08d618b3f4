-- The changes that heartbeats, sweeping and purging need. The servers make each of them in place, while
-- others read and write.

CREATE TABLE IF NOT EXISTS lockhouse_owner_session (
  owner VARCHAR(255) NOT NULL,
  ttl_ms BIGINT UNSIGNED NOT NULL,
  expires_at DATETIME(6) NOT NULL,
  PRIMARY KEY (owner),
  KEY lapsed (expires_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE={collation};

ALTER TABLE lockhouse_permit_request
  ADD COLUMN ended_by VARCHAR(255) CHARACTER SET utf8mb4 COLLATE {collation} NULL;

-- The state comes first, so that the owners of what has ended are not in the way.
ALTER TABLE lockhouse_permit_request ADD KEY owned (state, owner), ALGORITHM=INPLACE, LOCK=NONE;

ALTER TABLE lockhouse_permit_request ADD KEY ended (released_at), ALGORITHM=INPLACE, LOCK=NONE;

ALTER TABLE lockhouse_capacity_change ADD KEY changed (changed_at), ALGORITHM=INPLACE, LOCK=NONE;
