//! Maps the server's errors to a [`Kind`].

use lockhouse_core::store::Kind;
use sqlx::error::DatabaseError;

use Kind::{Configuration, Conflict, Crowded, Locked, Rejected, Schema, Unavailable};

/// Error codes, under the names that PostgreSQL gives them.
mod code {
    // Another transaction conflicted.
    pub(super) const UNIQUE_VIOLATION: &str = "23505";
    pub(super) const SERIALIZATION_FAILURE: &str = "40001";
    pub(super) const DEADLOCK_DETECTED: &str = "40P01";
    pub(super) const LOCK_NOT_AVAILABLE: &str = "55P03";

    // This server, or this connection, cannot do it now. This includes all codes that begin with
    // 08, 53 or 58.
    pub(super) const TOO_MANY_CONNECTIONS: &str = "53300";
    pub(super) const READ_ONLY_SQL_TRANSACTION: &str = "25006";
    /// An earlier statement of the transaction failed. Lockhouse never continues such a
    /// transaction.
    pub(super) const IN_FAILED_SQL_TRANSACTION: &str = "25P02";
    pub(super) const IDLE_IN_TRANSACTION_SESSION_TIMEOUT: &str = "25P03";
    pub(super) const TRANSACTION_TIMEOUT: &str = "25P04";
    pub(super) const QUERY_CANCELED: &str = "57014";
    pub(super) const ADMIN_SHUTDOWN: &str = "57P01";
    pub(super) const CRASH_SHUTDOWN: &str = "57P02";
    pub(super) const CANNOT_CONNECT_NOW: &str = "57P03";
    pub(super) const IDLE_SESSION_TIMEOUT: &str = "57P05";

    /// Lockhouse divides by zero where it [assumes](super::super::sql::NONE_EXIST) that there are no rows.
    pub(super) const DIVISION_BY_ZERO: &str = "22012";

    // The tables are not as they should be.
    pub(super) const INVALID_SCHEMA_NAME: &str = "3F000";
    pub(super) const UNDEFINED_COLUMN: &str = "42703";
    pub(super) const UNDEFINED_TABLE: &str = "42P01";

    // An operator has to correct something. This includes all codes that begin with 28.
    pub(super) const INVALID_CATALOG_NAME: &str = "3D000";
    pub(super) const INSUFFICIENT_PRIVILEGE: &str = "42501";
    pub(super) const DATABASE_DROPPED: &str = "57P04";
}

/// The server's code.
pub(super) fn code(error: &dyn DatabaseError) -> String {
    error.code().unwrap_or_default().into_owned()
}

/// Whether Lockhouse divided by zero.
pub(super) fn is_division_by_zero(code: &str) -> bool {
    code == code::DIVISION_BY_ZERO
}

/// The kind of an error before a COMMIT.
pub(super) fn kind(code: &str) -> Kind {
    match code {
        code::UNIQUE_VIOLATION | code::SERIALIZATION_FAILURE | code::DEADLOCK_DETECTED => Conflict,
        code::LOCK_NOT_AVAILABLE => Locked,
        code::TOO_MANY_CONNECTIONS => Crowded,
        code::READ_ONLY_SQL_TRANSACTION
        | code::IN_FAILED_SQL_TRANSACTION
        | code::IDLE_IN_TRANSACTION_SESSION_TIMEOUT
        | code::TRANSACTION_TIMEOUT
        | code::QUERY_CANCELED
        | code::ADMIN_SHUTDOWN
        | code::CRASH_SHUTDOWN
        | code::CANNOT_CONNECT_NOW
        | code::IDLE_SESSION_TIMEOUT => Unavailable,
        code::INVALID_SCHEMA_NAME | code::UNDEFINED_COLUMN | code::UNDEFINED_TABLE => Schema,
        code::INVALID_CATALOG_NAME | code::INSUFFICIENT_PRIVILEGE | code::DATABASE_DROPPED => {
            Configuration
        }
        _ => match code.get(..2) {
            Some("08" | "53" | "58") => Unavailable,
            Some("28") => Configuration,
            _ => Rejected,
        },
    }
}

/// Whether this code means that the session may not write.
pub(super) fn is_read_only(code: &str) -> bool {
    code == code::READ_ONLY_SQL_TRANSACTION
}

/// Whether this code at a COMMIT means that the server rolled back.
pub(super) fn is_rolled_back(code: &str) -> bool {
    matches!(code, code::SERIALIZATION_FAILURE | code::DEADLOCK_DETECTED)
}

/// Advice for the operator.
pub(super) fn advice(code: &str) -> Option<&'static str> {
    Some(match code {
        code::INVALID_CATALOG_NAME => "the database does not exist; make it with CREATE DATABASE",
        code::UNDEFINED_COLUMN | code::UNDEFINED_TABLE => {
            "the schema is not there; run `lockhouse migrate`"
        }
        code::INVALID_SCHEMA_NAME => {
            "the user's search_path names no schema that exists; make it with CREATE SCHEMA"
        }
        code::INSUFFICIENT_PRIVILEGE => "the user lacks a right on the database; GRANT it",
        _ if code.starts_with("28") => "check the user and the password in the URL",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_become_kinds() {
        for (kind, codes) in [
            (Conflict, &["40001", "40P01", "23505"][..]),
            (Locked, &["55P03"]),
            (
                Unavailable,
                &[
                    "25006", "25P02", "25P03", "57P01", "57P02", "57P03", "57014", "08000",
                    "08006", "53100", "53200", "58030",
                ],
            ),
            (Crowded, &["53300"]),
            (Schema, &["42P01", "42703"]),
            (Configuration, &["28P01", "28000", "3D000", "42501"]),
            (Rejected, &["22021", "42601", "54000", "XX000", ""]),
        ] {
            for code in codes {
                assert_eq!(super::kind(code), kind, "{code}");
            }
        }
    }

    #[test]
    fn at_a_commit_few_codes_are_believed() {
        for code in ["40001", "40P01"] {
            assert!(is_rolled_back(code));
        }
        for code in [
            "40003", "57P01", "08006", "25006", "57014", "53100", "XX000", "",
        ] {
            assert!(!is_rolled_back(code), "{code}");
        }
    }
}
