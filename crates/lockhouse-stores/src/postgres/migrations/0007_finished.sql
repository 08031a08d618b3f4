-- When its holder finished a request, in a transaction of its own; see `caller`. It is over then, and whatever command
-- touches it first ends it as released. A process of an older version ends it as expired.
ALTER TABLE lockhouse_permit_request ADD COLUMN finished_at timestamptz;
