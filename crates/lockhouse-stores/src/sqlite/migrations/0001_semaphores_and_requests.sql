-- Times are microseconds since 1970-01-01 00:00 UTC. Text is compared by bytes: BINARY, the default.
-- AUTOINCREMENT: without it the id of a deleted last row would be used again.

CREATE TABLE lockhouse_schema_version (
    version    INTEGER PRIMARY KEY,
    applied_at INTEGER NOT NULL
) STRICT;

-- A deleted row stays, so that its fence goes on if the name comes back.
CREATE TABLE lockhouse_semaphore (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    name       TEXT    NOT NULL UNIQUE,
    capacity   INTEGER NOT NULL CHECK (capacity >= 0),
    in_use     INTEGER NOT NULL CHECK (in_use >= 0),
    fence      INTEGER NOT NULL CHECK (fence >= 0),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    deleted_at INTEGER
) STRICT;

CREATE INDEX lockhouse_semaphore_existing
    ON lockhouse_semaphore (name) WHERE deleted_at IS NULL;

CREATE TABLE lockhouse_permit_request (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    external_id TEXT    NOT NULL UNIQUE,
    owner       TEXT,
    state       TEXT    NOT NULL CHECK (state IN ('ACQUIRED', 'RELEASED')),
    end_reason  TEXT,
    ttl_ms      INTEGER,
    expires_at  INTEGER,
    created_at  INTEGER NOT NULL,
    released_at INTEGER,
    CHECK ((state = 'RELEASED') = (end_reason IS NOT NULL)),
    CHECK ((state = 'RELEASED') = (released_at IS NOT NULL))
) STRICT;

CREATE INDEX lockhouse_permit_request_live
    ON lockhouse_permit_request (external_id) WHERE state = 'ACQUIRED';

-- For sweeps: those past their time, and among those without one the oldest.
CREATE INDEX lockhouse_permit_request_live_by_expiry
    ON lockhouse_permit_request (expires_at, created_at) WHERE state = 'ACQUIRED';

CREATE TABLE lockhouse_permit (
    permit_request_id INTEGER NOT NULL REFERENCES lockhouse_permit_request (id) ON DELETE CASCADE,
    semaphore_id      INTEGER NOT NULL REFERENCES lockhouse_semaphore (id),
    count             INTEGER NOT NULL CHECK (count >= 1),
    fence             INTEGER NOT NULL CHECK (fence >= 1),
    state             TEXT    NOT NULL CHECK (state IN ('ACQUIRED', 'RELEASED')),
    PRIMARY KEY (permit_request_id, semaphore_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX lockhouse_permit_live_by_semaphore
    ON lockhouse_permit (semaphore_id) WHERE state = 'ACQUIRED';

CREATE TABLE lockhouse_capacity_change (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    semaphore_id INTEGER NOT NULL REFERENCES lockhouse_semaphore (id),
    old_capacity INTEGER NOT NULL,
    new_capacity INTEGER NOT NULL,
    changed_by   TEXT,
    note         TEXT,
    changed_at   INTEGER NOT NULL
) STRICT;

CREATE INDEX lockhouse_capacity_change_by_semaphore
    ON lockhouse_capacity_change (semaphore_id);
