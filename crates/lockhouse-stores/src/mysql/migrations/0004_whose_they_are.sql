-- A release moves one entry of an index less: of a request that nobody owns none is left to move.

-- The owner, until the request has ended.
ALTER TABLE lockhouse_permit_request
  ADD COLUMN held_by VARCHAR(255) CHARACTER SET utf8mb4 COLLATE {collation}
    AS (IF(released_at IS NULL, owner, NULL)) STORED,
  ADD KEY held_by (held_by);

-- A process of a version that names this index in its queries can no longer look up requests by owner.
ALTER TABLE lockhouse_permit_request DROP KEY owned;
