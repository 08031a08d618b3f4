-- A release writes one row and moves two entries of indexes, where it wrote two rows and moved four.

-- A permit is live when its request is. A process of a version that writes this column can grant
-- nothing from here on.
ALTER TABLE lockhouse_permit DROP COLUMN state, DROP KEY held;

-- When to look at a request again: when it expires; once it has ended, from when it is of the past.
ALTER TABLE lockhouse_permit_request
  ADD COLUMN due_at DATETIME(6) AS (COALESCE(released_at, expires_at)) STORED,
  ADD KEY due (state, due_at, created_at);

ALTER TABLE lockhouse_permit_request DROP KEY live;

ALTER TABLE lockhouse_permit_request DROP KEY ended;
