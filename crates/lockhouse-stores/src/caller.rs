//! Statements for a transaction of the caller, where Lockhouse's tables are in the caller's database.
//!
//! Each has one parameter, the request's `external_id`. If the request is not held, the statement fails with an error that
//! contains [`NOT_HELD`], and the caller rolls back. Held means: granted and not ended, not finished, not past its expiry by
//! the database's clock, and kept by its owner's session if the owner has one.
//!
//! The error comes from an expression over the row: on MySQL and MariaDB a number that is out of range, on PostgreSQL a cast
//! of a text that is no number, on SQLite a text that is no JSON path. The expression depends on the row, so no server
//! computes it ahead. No SQL mode turns the error into a warning.
//!
//! Both lock the request's own row until the caller's transaction ends. Every end of a request (by
//! a release, a sweep or a found expiry) writes that row, so it comes after the commit. No row of a
//! semaphore is locked.
//!
//! - [`held`] writes nothing. After the commit the request goes on as before.
//! - [`finish`] marks the request as finished and moves its expiry to now. If the caller commits,
//!   the request is over. The next caller that wants its permits finds it in the same way as an
//!   expired request and ends it as `released`; otherwise the next sweep does. If the caller rolls
//!   back, the request is held as before.
//!
//! **The clock** is read while the row is locked, except in MySQL's and MariaDB's `finish`, which notes when the statement
//! began: that is never later than the commit. Sessions of any time zone may run the statements.
//!
//! **Isolation.** READ COMMITTED. At REPEATABLE READ, PostgreSQL and MariaDB 11.6 and newer refuse to lock a row that has
//! changed since the transaction's first read, as a renewal does. MySQL and MariaDB lock the gap around an id that does not
//! exist, MariaDB also the gap before one that does, and nobody can make a request in it meanwhile. There `finish` locks the
//! owner's session as well, so that its heartbeats wait.
//!
//! **On several writers.** Galera and multi-primary Group Replication keep row locks on one node. `finish` writes the row
//! and collides at the commit with an end on another node, so one of the two fails there. `held` writes nothing and
//! does not collide. Send these transactions to the node that Lockhouse uses.

use lockhouse_core::SqlDialect;

/// The error of both statements contains this text if the request is not held, in every language
/// of the server.
pub const NOT_HELD: &str = "lockhouse_not_held";

/// An UPDATE on SQLite of the request's row, which fails unless the request is held.
macro_rules! on_sqlite_if_held {
    ($update:literal) => {
        concat!(
            $update,
            "
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
        )
    };
}

/// The statement that fails unless the request is held, and keeps anybody from ending it until the
/// caller's transaction ends.
pub fn held(dialect: SqlDialect) -> &'static str {
    match dialect {
        SqlDialect::MySql | SqlDialect::MariaDb => {
            "SELECT 18446744073709551615 + (1 - COUNT(lockhouse_not_held.id))
FROM lockhouse_permit_request lockhouse_not_held FORCE INDEX (external_id)
WHERE external_id = ? AND state = 'ACQUIRED' AND finished_at IS NULL
  AND (expires_at IS NULL OR expires_at >
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
            on_sqlite_if_held!("UPDATE lockhouse_permit_request SET state = state")
        }
    }
}

/// The statement that finishes the request: its permits return with the caller's commit, not
/// before and not without it. It fails if the request is not held.
///
/// On MySQL and MariaDB it names one table to update, since an update of several tables would lock
/// the owner's session too (P13). An id that no request has is looked up first, without a lock.
pub fn finish(dialect: SqlDialect) -> &'static str {
    match dialect {
        SqlDialect::MySql | SqlDialect::MariaDb => {
            "UPDATE lockhouse_permit_request lockhouse_not_held FORCE INDEX (external_id)
SET finished_at = UTC_TIMESTAMP(6), expires_at = UTC_TIMESTAMP(6)
WHERE external_id = (SELECT IF(18446744073709551615 + (1 - n), external_id, NULL)
    FROM (SELECT COUNT(*) AS n, MAX(external_id) AS external_id FROM lockhouse_permit_request
      WHERE external_id = ?) lockhouse_not_held)
  AND CASE WHEN state = 'ACQUIRED' AND finished_at IS NULL
    AND (expires_at IS NULL OR expires_at >
      UTC_TIMESTAMP(6) + INTERVAL TIMESTAMPDIFF(MICROSECOND, NOW(6), SYSDATE(6)) MICROSECOND)
    AND NOT EXISTS (SELECT 1 FROM lockhouse_owner_session w
      WHERE w.owner = lockhouse_not_held.owner AND w.expires_at <=
        UTC_TIMESTAMP(6) + INTERVAL TIMESTAMPDIFF(MICROSECOND, NOW(6), SYSDATE(6)) MICROSECOND)
    THEN 1 ELSE 18446744073709551615 + lockhouse_not_held.id END"
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
        SqlDialect::Sqlite => on_sqlite_if_held!(
            "UPDATE lockhouse_permit_request SET
  finished_at = CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000,
  expires_at = CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000"
        ),
    }
}
