-- Owners that promised to be heard of again.
CREATE TABLE lockhouse_owner_session (
    owner      TEXT    NOT NULL PRIMARY KEY,
    ttl_ms     INTEGER NOT NULL CHECK (ttl_ms >= 1),
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX lockhouse_owner_session_by_expiry
    ON lockhouse_owner_session (expires_at);

-- The name of the caller that ended it, if it was not the holder and gave a name.
ALTER TABLE lockhouse_permit_request ADD COLUMN ended_by TEXT;

-- Those held too long without a time to live are in lockhouse_permit_request_live_by_expiry.
CREATE INDEX lockhouse_permit_request_live_by_owner
    ON lockhouse_permit_request (owner) WHERE state = 'ACQUIRED' AND owner IS NOT NULL;

CREATE INDEX lockhouse_permit_request_ended_by_time
    ON lockhouse_permit_request (released_at) WHERE state = 'RELEASED';

CREATE INDEX lockhouse_capacity_change_by_time
    ON lockhouse_capacity_change (changed_at);
