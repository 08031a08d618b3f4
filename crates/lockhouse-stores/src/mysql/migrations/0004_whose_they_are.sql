-- A release moves one entry of an index less: of a request that nobody owns none is left to move.

-- Whose it is, until it has ended.
ALTER TABLE lockhouse_permit_request
  ADD COLUMN held_by VARCHAR(255) CHARACTER SET utf8mb4 COLLATE {collation}
    AS (IF(released_at IS NULL, owner, NULL)) STORED,
  ADD KEY held_by (held_by);

-- Whoever still runs a version that asks for this index finds out no more whose anything is.
ALTER TABLE lockhouse_permit_request DROP KEY owned;
