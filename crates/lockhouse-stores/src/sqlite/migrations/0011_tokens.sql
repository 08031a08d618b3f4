-- Access tokens, without their secrets: a token is known by the SHA-256 of it.
CREATE TABLE lockhouse_token (
    name       TEXT    NOT NULL PRIMARY KEY,
    digest     TEXT    NOT NULL,
    grants     TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER
) STRICT, WITHOUT ROWID;
