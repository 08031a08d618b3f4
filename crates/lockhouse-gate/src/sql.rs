//! The gate as a table and one statement, for the writer's own transaction.
//!
//! ```text
//! BEGIN
//! pass(resource, slot, fence)      locks the row of (resource, slot) until the transaction ends
//! … the writes …
//! COMMIT
//! ```
//!
//! **A stale fence fails the statement.** The error names the constraint [`STALE`]. So a writer
//! that ignores results does not go on, and its transaction is rolled back as after any error. A
//! deadlock, a serialization failure or a lock timeout says nothing about the fence: roll back and
//! try again.
//!
//! **The row lock is the guard.** A statement that passes locks its row until the commit. A writer
//! that is paused in between keeps the lock, so the next holder's statement waits, and its writes
//! come after. Nothing with a lower fence is committed after something with a higher one. The price
//! is that a paused writer delays its successor until the database ends the idle transaction, so
//! set that limit: `idle_in_transaction_session_timeout` on PostgreSQL,
//! `idle_write_transaction_timeout` on MariaDB, `wait_timeout` on MySQL. On SQLite the lock is the
//! writer's lock on the whole file: begin with `BEGIN IMMEDIATE`.
//!
//! **Pass first.** Make it the transaction's first statement, so that all reads come after it. At REPEATABLE READ a read
//! before it would see the data as it was before the last holder's commit.
//!
//! **Every pass writes the row**, also with an equal fence: `passes` counts them. A database that takes writes on several
//! nodes finds conflicts by the rows that are written, not by those that are locked. There the loser fails at its
//! COMMIT.
//!
//! The table may be in any database and schema. It needs no other table of Lockhouse.

use lockhouse_core::SqlDialect;

/// The constraint that the error of a stale fence names.
pub const STALE: &str = "lockhouse_stale_fence";

/// Creates the table `lockhouse_gate` unless it is there. Its names are compared byte by byte, and may have 255 characters.
pub fn create_table(dialect: SqlDialect) -> &'static str {
    match dialect {
        SqlDialect::MySql => {
            "CREATE TABLE IF NOT EXISTS lockhouse_gate (
  resource VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin NOT NULL,
  slot INT NOT NULL,
  fence BIGINT NOT NULL,
  passes BIGINT NOT NULL,
  PRIMARY KEY (resource, slot),
  CONSTRAINT lockhouse_stale_fence CHECK (fence > 0)
) ENGINE=InnoDB"
        }
        SqlDialect::MariaDb => {
            "CREATE TABLE IF NOT EXISTS lockhouse_gate (
  resource VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin NOT NULL,
  slot INT NOT NULL,
  fence BIGINT NOT NULL,
  passes BIGINT NOT NULL,
  PRIMARY KEY (resource, slot),
  CONSTRAINT lockhouse_stale_fence CHECK (fence > 0)
) ENGINE=InnoDB"
        }
        SqlDialect::Postgres => {
            "CREATE TABLE IF NOT EXISTS lockhouse_gate (
  resource text COLLATE \"C\" NOT NULL,
  slot integer NOT NULL,
  fence bigint NOT NULL,
  passes bigint NOT NULL,
  PRIMARY KEY (resource, slot),
  CONSTRAINT lockhouse_stale_fence CHECK (fence > 0)
)"
        }
        SqlDialect::Sqlite => {
            "CREATE TABLE IF NOT EXISTS lockhouse_gate (
  resource TEXT NOT NULL,
  slot INTEGER NOT NULL,
  fence INTEGER NOT NULL,
  passes INTEGER NOT NULL,
  PRIMARY KEY (resource, slot),
  CONSTRAINT lockhouse_stale_fence CHECK (fence > 0)
) STRICT, WITHOUT ROWID"
        }
    }
}

/// Passes the gate, or fails with an error that names [`STALE`]. Its parameters are the resource, the slot and the fence.
/// A first pass creates the row.
pub fn pass(dialect: SqlDialect) -> &'static str {
    match dialect {
        SqlDialect::MySql | SqlDialect::MariaDb => {
            "INSERT INTO lockhouse_gate (resource, slot, fence, passes) VALUES (?, ?, ?, 1)
ON DUPLICATE KEY UPDATE
  fence = IF(VALUES(fence) < fence, -1, VALUES(fence)),
  passes = passes + 1"
        }
        SqlDialect::Postgres => {
            "INSERT INTO lockhouse_gate AS seen (resource, slot, fence, passes) VALUES ($1, $2, $3, 1)
ON CONFLICT (resource, slot) DO UPDATE SET
  fence = CASE WHEN excluded.fence < seen.fence THEN -1 ELSE excluded.fence END,
  passes = seen.passes + 1"
        }
        SqlDialect::Sqlite => {
            "INSERT INTO lockhouse_gate AS seen (resource, slot, fence, passes) VALUES (?1, ?2, ?3, 1)
ON CONFLICT (resource, slot) DO UPDATE SET
  fence = CASE WHEN excluded.fence < seen.fence THEN -1 ELSE excluded.fence END,
  passes = seen.passes + 1"
        }
    }
}

/// Whether a database's error message says that the fence was stale.
///
/// ```
/// use lockhouse_gate::sql::is_stale;
///
/// assert!(is_stale("CHECK constraint failed: lockhouse_stale_fence"));
/// assert!(!is_stale("database is locked"));
/// ```
pub fn is_stale(message: &str) -> bool {
    message.contains(STALE)
}
