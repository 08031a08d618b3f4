-- Rows of semaphores that were deleted long ago go. With a foreign key to them, each of them would be looked for in all
-- permits. The permits of live requests, and of those that ended lately, are of semaphores whose rows stay.
CREATE TABLE lockhouse_permit_of_any (
    permit_request_id INTEGER NOT NULL REFERENCES lockhouse_permit_request (id) ON DELETE CASCADE,
    semaphore_id      INTEGER NOT NULL,
    count             INTEGER NOT NULL CHECK (count >= 1),
    fence             INTEGER NOT NULL CHECK (fence >= 1),
    slots             TEXT,
    PRIMARY KEY (permit_request_id, semaphore_id)
) STRICT, WITHOUT ROWID;

INSERT INTO lockhouse_permit_of_any
    SELECT permit_request_id, semaphore_id, count, fence, slots FROM lockhouse_permit;

DROP TABLE lockhouse_permit;

ALTER TABLE lockhouse_permit_of_any RENAME TO lockhouse_permit;
