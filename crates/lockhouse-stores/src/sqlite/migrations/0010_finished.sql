-- When the holder finished the request in its own transaction; see `caller`. The request is over then, and the first
-- command that touches it ends it as released. A process of an older version ends it as expired.
ALTER TABLE lockhouse_permit_request ADD COLUMN finished_at INTEGER;
