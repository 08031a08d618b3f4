//! Statements for a transaction of the caller, where Lockhouse's tables are in the caller's database.
//!
//! Each has one parameter, the request's `external_id`. If the request is not held, the statement fails with an error that
//! contains [`NOT_HELD`], and the caller rolls back. Held means: granted and not ended, not finished, not past its expiry by the
//! database's clock, and kept by its owner's session if the owner has one.
//!
//! The error comes from an expression over the row that was found: a number that is out of range on MySQL and MariaDB, a text
//! that is no number on PostgreSQL, a path that is none on SQLite. None of them depends on the SQL mode, nor can the server
//! compute it ahead of the row.
//!
//! Both lock the request's own row until the caller's transaction ends. Every end of a request, be it a release, a
//! sweep or an expiry that somebody finds, writes that row, so it comes after the commit. No row of a semaphore is locked.
//!
//! - [`held`] writes nothing. After the commit the request goes on as before.
//! - [`finish`] marks the request as finished and moves its expiry to now. If the caller commits, it is over: whoever wants
//!   the permits finds it as they find what has expired, and ends it as `released`, or else the next sweep does. If the
//!   caller rolls back, it is held as before.
//!
//! **The clock** is read while the row is locked, except in MySQL's and MariaDB's `finish`, which notes when the statement
//! began: that is never later than the commit. Sessions of any time zone may run the statements.
//!
//! **Isolation.** READ COMMITTED. At REPEATABLE READ, PostgreSQL and MariaDB 11.6 and newer refuse to lock a row that has
//! changed since the transaction's first read, as a renewal does; MariaDB locks the gap before the row too; and on MySQL and
//! MariaDB `finish` locks the owner's session as well, so that its heartbeats wait.
//!
//! **On several writers.** Galera and multi-primary Group Replication keep row locks on one node. `finish` writes the row
//! and collides at the commit with an end on another node, so one of the two fails there. `held` writes nothing and
//! does not collide. Send these transactions to the node that Lockhouse uses.

use lockhouse_core::SqlDialect;

/// The error of a statement contains this text if the request is not held, whatever the server's language.
pub const NOT_HELD: &str = "lockhouse_not_held";

/// Succeeds only while the request is held, and keeps anybody from ending it until the caller's transaction ends. Fails if the
/// request is not held.
pub fn held(dialect: SqlDialect) -> &'static str {
    match dialect {
        SqlDialect::MySql | SqlDialect::MariaDb => {
            "SELECT 18446744073709551615 + (1 - COUNT(lockhouse_not_held.id))
FROM lockhouse_permit_request lockhouse_not_held FORCE INDEX (external_id)
WHERE external_id = ? AND state = 'ACQUIRED' AND finished_at IS NULL
  AND (lockhouse_not_held.expires_at IS NULL OR lockhouse_not_held.expires_at >
    UTC_TIMESTAMP(6) + INTERVAL TIMESTAMPDIFF(MICROSECOND, NOW(6), SYSDATE(6)) MICROSECOND)
  AND NOT EXISTS (SELECT 1 FROM lockhouse_owner_session w
    WHERE w.owner = lockhouse_not_held.owner AND w.expires_at <=
      UTC_TIMESTAMP(6) + INTERVAL TIMESTAMPDIFF(MICROSECOND, NOW(6), SYSDATE(6)) MICROSECOND)
FOR UPDATE"
        }
        SqlDialect::Postgres => {
            "WITH r AS MATERIALIZED (SELECT id, owner, expires_at FROM lockhouse_permit_request
  WHERE external_id = $1 AND state = 'ACQUIRED' AND finished_at IS NULL FOR UPDATE),
held AS (SELECT r.id FROM r
  WHERE (r.expires_at IS NULL OR r.expires_at > clock_timestamp())
    AND NOT EXISTS (SELECT 1 FROM lockhouse_owner_session w
      WHERE w.owner = r.owner AND w.expires_at <= clock_timestamp()))
SELECT CAST(CASE count(*) WHEN 1 THEN '1' ELSE 'lockhouse_not_held' END AS integer) FROM held"
        }
        SqlDialect::Sqlite => {
            "UPDATE lockhouse_permit_request SET state = state
WHERE id = (
  SELECT CASE WHEN json_extract('{}', CASE count(*) WHEN 1 THEN '$' ELSE 'lockhouse_not_held' END) = '{}'
    THEN max(r.id) END
  FROM lockhouse_permit_request AS r
  WHERE r.external_id = ?1 AND r.state = 'ACQUIRED' AND r.finished_at IS NULL
    AND (r.expires_at IS NULL OR r.expires_at >
      CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000)
    AND NOT EXISTS (SELECT 1 FROM lockhouse_owner_session AS w
      WHERE w.owner = r.owner AND w.expires_at <=
        CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000))
RETURNING id"
        }
    }
}

/// Finishes the request if it is held: its permits return with the caller's commit, not before and not without it. Fails if
/// the request is not held.
pub fn finish(dialect: SqlDialect) -> &'static str {
    match dialect {
        SqlDialect::MySql | SqlDialect::MariaDb => {
            "UPDATE (SELECT 1 AS one) o
LEFT JOIN lockhouse_permit_request lockhouse_not_held FORCE INDEX (external_id)
ON lockhouse_not_held.external_id = ? AND lockhouse_not_held.state = 'ACQUIRED'
  AND lockhouse_not_held.finished_at IS NULL
  AND (lockhouse_not_held.expires_at IS NULL OR lockhouse_not_held.expires_at >
    UTC_TIMESTAMP(6) + INTERVAL TIMESTAMPDIFF(MICROSECOND, NOW(6), SYSDATE(6)) MICROSECOND)
  AND NOT EXISTS (SELECT 1 FROM lockhouse_owner_session w
    WHERE w.owner = lockhouse_not_held.owner AND w.expires_at <=
      UTC_TIMESTAMP(6) + INTERVAL TIMESTAMPDIFF(MICROSECOND, NOW(6), SYSDATE(6)) MICROSECOND)
SET lockhouse_not_held.finished_at = UTC_TIMESTAMP(6), lockhouse_not_held.expires_at = UTC_TIMESTAMP(6)
WHERE 18446744073709551615 + (lockhouse_not_held.id IS NULL)"
        }
        SqlDialect::Postgres => {
            "WITH r AS MATERIALIZED (SELECT id, owner, expires_at FROM lockhouse_permit_request
  WHERE external_id = $1 AND state = 'ACQUIRED' AND finished_at IS NULL FOR UPDATE),
finished AS (UPDATE lockhouse_permit_request f
  SET finished_at = clock_timestamp(), expires_at = clock_timestamp() FROM r
  WHERE f.id = r.id AND (r.expires_at IS NULL OR r.expires_at > clock_timestamp())
    AND NOT EXISTS (SELECT 1 FROM lockhouse_owner_session w
      WHERE w.owner = r.owner AND w.expires_at <= clock_timestamp())
  RETURNING f.id)
SELECT CAST(CASE count(*) WHEN 1 THEN '1' ELSE 'lockhouse_not_held' END AS integer) FROM finished"
        }
        SqlDialect::Sqlite => {
            "UPDATE lockhouse_permit_request SET
  finished_at = CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000,
  expires_at = CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000
WHERE id = (
  SELECT CASE WHEN json_extract('{}', CASE count(*) WHEN 1 THEN '$' ELSE 'lockhouse_not_held' END) = '{}'
    THEN max(r.id) END
  FROM lockhouse_permit_request AS r
  WHERE r.external_id = ?1 AND r.state = 'ACQUIRED' AND r.finished_at IS NULL
    AND (r.expires_at IS NULL OR r.expires_at >
      CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000)
    AND NOT EXISTS (SELECT 1 FROM lockhouse_owner_session AS w
      WHERE w.owner = r.owner AND w.expires_at <=
        CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000))
RETURNING id"
        }
    }
}
