//! Maps SQLite's result codes to kinds of errors.

use lockhouse_core::store::{Error, Kind};
use rusqlite::{Error as Driver, ErrorCode};

/// SQLITE_ERROR, "SQL error or missing database". The SQL is fixed and right for its schema, so the
/// schema must be wrong.
const SQL_ERROR: ErrorCode = ErrorCode::Unknown;

/// Turns the driver's error into the store's: `doing` is the failed step, such as `load a request`.
/// Nothing was applied. For a commit, use [`commit`].
pub(super) fn cannot(doing: &'static str) -> impl Fn(Driver) -> Error {
    move |source| {
        let (kind, advice) = meaning(&source);
        Error::new(kind, format!("SQLite could not {doing}: {advice}")).caused_by(source)
    }
}

/// Turns the driver's error at a commit into the store's. A recovery of the file may still find a frame that was written
/// but not synced. So the outcome is unknown, except after codes that come before the write.
pub(super) fn commit(source: Driver) -> Error {
    match code(&source) {
        Some(
            ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::DiskFull
            | ErrorCode::ReadOnly
            | ErrorCode::ConstraintViolation,
        ) => cannot("commit")(source),
        _ => {
            let advice = "SQLite lost the answer of a commit; ask again to find out";
            Error::new(Kind::Unknown, advice).caused_by(source)
        }
    }
}

/// Whether another connection's lock was in the way.
pub(super) fn is_busy(error: &Driver) -> bool {
    meaning(error).0 == Kind::Conflict
}

/// Whether a table or a column is missing.
pub(super) fn is_about_schema(error: &Driver) -> bool {
    code(error) == Some(SQL_ERROR)
}

/// The error of a stored value that does not fit the core's types: foreign or damaged.
pub(super) fn unreadable(
    place: impl std::fmt::Display,
    why: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> Error {
    Error::new(Kind::Rejected, format!("SQLite holds no valid {place}")).caused_by(why)
}

fn code(error: &Driver) -> Option<ErrorCode> {
    match error {
        Driver::SqliteFailure(error, _) | Driver::SqlInputError { error, .. } => Some(error.code),
        _ => None,
    }
}

fn meaning(error: &Driver) -> (Kind, &'static str) {
    let Some(code) = code(error) else {
        return (Kind::Rejected, "the driver turned it down");
    };
    match code {
        // The extended SQLITE_BUSY_SNAPSHOT, _RECOVERY and _TIMEOUT are among the first.
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => (
            Kind::Conflict,
            "another connection held the lock for too long; try again",
        ),
        ErrorCode::FileLockingProtocolFailed | ErrorCode::SchemaChanged => (
            Kind::Conflict,
            "another connection was in the way; try again",
        ),
        ErrorCode::DiskFull => (
            Kind::Unavailable,
            "the disk or a quota is full; make room, nothing was applied",
        ),
        ErrorCode::ReadOnly | ErrorCode::PermissionDenied => (
            Kind::Unavailable,
            "the file can't be written; give this user the right to write it and its folder",
        ),
        ErrorCode::CannotOpen => (
            Kind::Unavailable,
            "the file can't be opened; check that its folder is there, that this user may write \
             in it, and the limit on open files",
        ),
        ErrorCode::SystemIoFailure => (
            Kind::Unavailable,
            "the disk failed; look at the system's log, then try again",
        ),
        ErrorCode::OutOfMemory => (Kind::Unavailable, "memory ran out"),
        ErrorCode::OperationInterrupted | ErrorCode::OperationAborted => {
            (Kind::Unavailable, "it was interrupted; try again")
        }
        ErrorCode::NotADatabase => (
            Kind::Configuration,
            "the file is not an SQLite database; use another path",
        ),
        ErrorCode::DatabaseCorrupt => (
            Kind::Rejected,
            "the file is damaged; stop all that use it and restore it from a backup",
        ),
        SQL_ERROR => (
            Kind::Schema,
            "the tables are not as they should be; were they changed by hand?",
        ),
        _ => (Kind::Rejected, "the database turned it down"),
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    fn driver(code: i32) -> Driver {
        Driver::SqliteFailure(ffi::Error::new(code), None)
    }

    #[test]
    fn codes_become_kinds() {
        for (code, kind) in [
            (ffi::SQLITE_BUSY, Kind::Conflict),
            (ffi::SQLITE_BUSY_SNAPSHOT, Kind::Conflict),
            (ffi::SQLITE_BUSY_RECOVERY, Kind::Conflict),
            (ffi::SQLITE_LOCKED, Kind::Conflict),
            (ffi::SQLITE_PROTOCOL, Kind::Conflict),
            (ffi::SQLITE_FULL, Kind::Unavailable),
            (ffi::SQLITE_READONLY, Kind::Unavailable),
            (ffi::SQLITE_CANTOPEN, Kind::Unavailable),
            (ffi::SQLITE_IOERR_READ, Kind::Unavailable),
            (ffi::SQLITE_ERROR, Kind::Schema),
            (ffi::SQLITE_NOTADB, Kind::Configuration),
            (ffi::SQLITE_CORRUPT, Kind::Rejected),
            (ffi::SQLITE_CONSTRAINT_UNIQUE, Kind::Rejected),
        ] {
            assert_eq!(cannot("try")(driver(code)).kind(), kind, "{code}");
        }
    }

    /// P9
    #[test]
    fn a_commit_whose_sync_failed_is_unknown_and_one_without_room_is_not_applied() {
        assert!(commit(driver(ffi::SQLITE_IOERR_FSYNC)).maybe_applied());
        assert!(commit(driver(ffi::SQLITE_NOMEM)).maybe_applied());
        for code in [ffi::SQLITE_FULL, ffi::SQLITE_BUSY] {
            let error = commit(driver(code));
            assert!(!error.maybe_applied() && error.is_transient(), "{code}");
        }
    }
}
