-- Numbers are unsigned; times are UTC to the microsecond; texts are compared byte by byte (the
-- collation is put in, as MySQL and MariaDB name it differently). No foreign keys: they take locks
-- of their own. Every table has a primary key, as clusters demand.

CREATE TABLE IF NOT EXISTS lockhouse_schema_version (
  version INT UNSIGNED NOT NULL,
  applied_at DATETIME(6) NOT NULL,
  PRIMARY KEY (version)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE={collation};

CREATE TABLE IF NOT EXISTS lockhouse_semaphore (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
  name VARCHAR(255) NOT NULL,
  capacity INT UNSIGNED NOT NULL,
  in_use INT UNSIGNED NOT NULL,
  fence BIGINT UNSIGNED NOT NULL,
  created_at DATETIME(6) NOT NULL,
  updated_at DATETIME(6) NOT NULL,
  deleted_at DATETIME(6) NULL,
  PRIMARY KEY (id),
  UNIQUE KEY name (name)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE={collation};

-- The id is chosen by Lockhouse.
CREATE TABLE IF NOT EXISTS lockhouse_permit_request (
  id BIGINT UNSIGNED NOT NULL,
  external_id VARCHAR(255) NOT NULL,
  owner VARCHAR(255) NULL,
  state ENUM('ACQUIRED', 'RELEASED') NOT NULL,
  end_reason VARCHAR(32) NULL,
  ttl_ms BIGINT UNSIGNED NULL,
  expires_at DATETIME(6) NULL,
  created_at DATETIME(6) NOT NULL,
  released_at DATETIME(6) NULL,
  PRIMARY KEY (id),
  UNIQUE KEY external_id (external_id),
  KEY live (state, expires_at, created_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE={collation};

CREATE TABLE IF NOT EXISTS lockhouse_permit (
  permit_request_id BIGINT UNSIGNED NOT NULL,
  semaphore_id BIGINT UNSIGNED NOT NULL,
  `count` INT UNSIGNED NOT NULL,
  fence BIGINT UNSIGNED NOT NULL,
  state ENUM('ACQUIRED', 'RELEASED') NOT NULL,
  PRIMARY KEY (permit_request_id, semaphore_id),
  KEY held (semaphore_id, state)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE={collation};

CREATE TABLE IF NOT EXISTS lockhouse_capacity_change (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
  semaphore_id BIGINT UNSIGNED NOT NULL,
  old_capacity INT UNSIGNED NOT NULL,
  new_capacity INT UNSIGNED NOT NULL,
  changed_by VARCHAR(255) NULL,
  note VARCHAR(1024) NULL,
  changed_at DATETIME(6) NOT NULL,
  PRIMARY KEY (id),
  KEY history (semaphore_id, changed_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE={collation};
