//! Maps the server's errors to a [`Kind`].

use lockhouse_core::store::{Error, Kind};
use sqlx::error::DatabaseError;
use sqlx::mysql::MySqlDatabaseError;

use Kind::{Configuration, Conflict, Crowded, Locked, Rejected, Schema, Unavailable};

/// Server error codes, under the names that MySQL and MariaDB give them.
pub(super) mod code {
    // Another transaction conflicted.
    pub(crate) const CHECKREAD: u16 = 1020;
    pub(crate) const DUP_ENTRY: u16 = 1062;
    /// For a statement under autocommit. At a COMMIT, the outcome is unknown.
    pub(crate) const ERROR_DURING_COMMIT: u16 = 1180;
    pub(crate) const LOCK_WAIT_TIMEOUT: u16 = 1205;
    pub(crate) const LOCK_TABLE_FULL: u16 = 1206;
    pub(crate) const LOCK_DEADLOCK: u16 = 1213;
    pub(crate) const TRANSACTION_ROLLBACK_DURING_COMMIT: u16 = 3101;
    /// An ALTER cannot catch up with the writes during it.
    pub(crate) const ONLINE_LOG_TOO_BIG: u16 = 1799;
    /// No such savepoint: the transaction that had it has ended.
    pub(crate) const SP_DOES_NOT_EXIST: u16 = 1305;
    pub(crate) const LOCK_NOWAIT: u16 = 3572;

    // This server, or this connection, cannot do it now.
    pub(crate) const DISK_FULL: u16 = 1021;
    pub(crate) const GET_ERRNO: u16 = 1030;
    pub(crate) const OUTOFMEMORY: u16 = 1037;
    pub(crate) const CON_COUNT_ERROR: u16 = 1040;
    pub(crate) const OUT_OF_RESOURCES: u16 = 1041;
    /// Galera's "not yet prepared for application use".
    pub(crate) const UNKNOWN_COM_ERROR: u16 = 1047;
    pub(crate) const SERVER_SHUTDOWN: u16 = 1053;
    pub(crate) const RECORD_FILE_FULL: u16 = 1114;
    pub(crate) const ABORTING_CONNECTION: u16 = 1152;
    pub(crate) const NET_READ_ERROR: u16 = 1158;
    pub(crate) const NET_READ_INTERRUPTED: u16 = 1159;
    pub(crate) const NET_ERROR_ON_WRITE: u16 = 1160;
    pub(crate) const NET_WRITE_INTERRUPTED: u16 = 1161;
    pub(crate) const NEW_ABORTING_CONNECTION: u16 = 1184;
    pub(crate) const TOO_MANY_USER_CONNECTIONS: u16 = 1203;
    pub(crate) const USER_LIMIT_REACHED: u16 = 1226;
    pub(crate) const SUBQUERY_HAS_MORE_ROWS: u16 = 1242;
    pub(crate) const OPTION_PREVENTS_STATEMENT: u16 = 1290;
    pub(crate) const QUERY_INTERRUPTED: u16 = 1317;
    pub(crate) const READ_ONLY_MODE: u16 = 1836;
    /// MariaDB's "connection was killed".
    pub(crate) const CONNECTION_KILLED: u16 = 1927;
    /// MariaDB's `max_statement_time`.
    pub(crate) const STATEMENT_TIMEOUT: u16 = 1969;
    /// MySQL's `max_execution_time`.
    pub(crate) const QUERY_TIMEOUT: u16 = 3024;
    pub(crate) const SERVER_OFFLINE_MODE: u16 = 3032;
    pub(crate) const SERVER_ISNT_AVAILABLE: u16 = 3168;
    pub(crate) const SESSION_WAS_KILLED: u16 = 3169;
    // A group member that is starting, stopping, or changing its primary.
    pub(crate) const GR_HOLD_WAIT_TIMEOUT: u16 = 3781;
    pub(crate) const GR_HOLD_KILLED: u16 = 3782;
    pub(crate) const GR_HOLD_MEMBER_STATUS_ERROR: u16 = 3783;
    pub(crate) const GRP_TRX_CONSISTENCY_NOT_ALLOWED: u16 = 3796;
    pub(crate) const GRP_TRX_CONSISTENCY_BEFORE: u16 = 3797;
    pub(crate) const GRP_TRX_CONSISTENCY_BEGIN_NOT_ALLOWED: u16 = 3799;
    pub(crate) const CLIENT_INTERACTION_TIMEOUT: u16 = 4031;

    // The tables are not as they should be.
    pub(crate) const BAD_FIELD: u16 = 1054;
    pub(crate) const NO_SUCH_TABLE: u16 = 1146;

    // An operator has to correct something.
    pub(crate) const DBACCESS_DENIED: u16 = 1044;
    pub(crate) const ACCESS_DENIED: u16 = 1045;
    pub(crate) const BAD_DB: u16 = 1049;
    pub(crate) const UNKNOWN_CHARACTER_SET: u16 = 1115;
    pub(crate) const HOST_IS_BLOCKED: u16 = 1129;
    pub(crate) const HOST_NOT_PRIVILEGED: u16 = 1130;
    pub(crate) const TABLEACCESS_DENIED: u16 = 1142;
    pub(crate) const COLUMNACCESS_DENIED: u16 = 1143;
    pub(crate) const SPECIFIC_ACCESS_DENIED: u16 = 1227;
    pub(crate) const NOT_SUPPORTED_AUTH_MODE: u16 = 1251;
    pub(crate) const UNKNOWN_COLLATION: u16 = 1273;
    pub(crate) const BINLOG_ROW_MODE_AND_STMT_ENGINE: u16 = 1665;
    pub(crate) const ACCESS_DENIED_NO_PASSWORD: u16 = 1698;
    pub(crate) const READ_ONLY_TRANSACTION: u16 = 1792;
    pub(crate) const MUST_CHANGE_PASSWORD: u16 = 1820;
    pub(crate) const MUST_CHANGE_PASSWORD_LOGIN: u16 = 1862;
    pub(crate) const SECURE_TRANSPORT_REQUIRED: u16 = 3159;

    // A migration has done this already.
    pub(crate) const TABLE_EXISTS: u16 = 1050;
    pub(crate) const DUP_FIELDNAME: u16 = 1060;
    pub(crate) const DUP_KEYNAME: u16 = 1061;
    pub(crate) const CANT_DROP_FIELD_OR_KEY: u16 = 1091;
}

/// The server's code.
pub(super) fn number(error: &dyn DatabaseError) -> u16 {
    let error = error.try_downcast_ref::<MySqlDatabaseError>();
    error.map_or(0, MySqlDatabaseError::number)
}

/// The server's code of the cause of `error`, if the server reported it.
pub(super) fn server_code(error: &Error) -> Option<u16> {
    crate::sql::servers_word(error).map(number)
}

/// Whether this code at a COMMIT means that the server rolled back.
pub(super) fn is_rolled_back(code: u16) -> bool {
    matches!(
        code,
        code::CHECKREAD
            | code::LOCK_WAIT_TIMEOUT
            | code::LOCK_DEADLOCK
            | code::TRANSACTION_ROLLBACK_DURING_COMMIT
            | code::SP_DOES_NOT_EXIST
            | code::OPTION_PREVENTS_STATEMENT
            | code::READ_ONLY_MODE
    )
}

/// Advice for the operator.
pub(super) fn advice(code: u16) -> Option<&'static str> {
    Some(match code {
        code::BAD_DB => "the database does not exist; make it with CREATE DATABASE",
        code::BAD_FIELD | code::NO_SUCH_TABLE => "the schema is not there; run `lockhouse migrate`",
        code::ACCESS_DENIED | code::ACCESS_DENIED_NO_PASSWORD => {
            "check the user and the password in the URL"
        }
        code::DBACCESS_DENIED | code::TABLEACCESS_DENIED | code::COLUMNACCESS_DENIED => {
            "the user lacks a right on the database; GRANT it"
        }
        code::UNKNOWN_CHARACTER_SET | code::UNKNOWN_COLLATION => {
            "the server is too old; it takes MySQL 8.0.17 or MariaDB 10.6"
        }
        code::OPTION_PREVENTS_STATEMENT | code::READ_ONLY_MODE => {
            "the server is read-only, as a replica is; connect to the primary, or set read_only and \
             super_read_only off"
        }
        code::READ_ONLY_TRANSACTION => {
            "transaction_read_only is on, so nothing can be written; SET GLOBAL \
             transaction_read_only=OFF (MariaDB: tx_read_only)"
        }
        _ => return None,
    })
}

/// The kind of an error before a COMMIT.
pub(super) fn kind(code: u16) -> Kind {
    match code {
        code::CHECKREAD
        | code::DUP_ENTRY
        | code::ERROR_DURING_COMMIT
        | code::LOCK_TABLE_FULL
        | code::LOCK_DEADLOCK
        | code::TRANSACTION_ROLLBACK_DURING_COMMIT
        | code::ONLINE_LOG_TOO_BIG
        | code::SP_DOES_NOT_EXIST => Conflict,
        // Only statements that lock rows have a time limit.
        code::LOCK_WAIT_TIMEOUT
        | code::LOCK_NOWAIT
        | code::STATEMENT_TIMEOUT
        | code::QUERY_TIMEOUT => Locked,
        code::DISK_FULL
        | code::GET_ERRNO
        | code::OUTOFMEMORY
        | code::OUT_OF_RESOURCES
        | code::UNKNOWN_COM_ERROR
        | code::SERVER_SHUTDOWN
        | code::RECORD_FILE_FULL
        | code::ABORTING_CONNECTION
        | code::NET_READ_ERROR
        | code::NET_READ_INTERRUPTED
        | code::NET_ERROR_ON_WRITE
        | code::NET_WRITE_INTERRUPTED
        | code::NEW_ABORTING_CONNECTION
        | code::OPTION_PREVENTS_STATEMENT
        | code::QUERY_INTERRUPTED
        | code::READ_ONLY_MODE
        | code::CONNECTION_KILLED
        | code::SERVER_OFFLINE_MODE
        | code::SERVER_ISNT_AVAILABLE
        | code::SESSION_WAS_KILLED
        | code::GR_HOLD_WAIT_TIMEOUT
        | code::GR_HOLD_KILLED
        | code::GR_HOLD_MEMBER_STATUS_ERROR
        | code::GRP_TRX_CONSISTENCY_NOT_ALLOWED
        | code::GRP_TRX_CONSISTENCY_BEFORE
        | code::GRP_TRX_CONSISTENCY_BEGIN_NOT_ALLOWED
        | code::CLIENT_INTERACTION_TIMEOUT => Unavailable,
        code::CON_COUNT_ERROR | code::TOO_MANY_USER_CONNECTIONS | code::USER_LIMIT_REACHED => {
            Crowded
        }
        code::BAD_FIELD | code::NO_SUCH_TABLE => Schema,
        code::DBACCESS_DENIED
        | code::ACCESS_DENIED
        | code::BAD_DB
        | code::UNKNOWN_CHARACTER_SET
        | code::HOST_IS_BLOCKED
        | code::HOST_NOT_PRIVILEGED
        | code::TABLEACCESS_DENIED
        | code::COLUMNACCESS_DENIED
        | code::SPECIFIC_ACCESS_DENIED
        | code::NOT_SUPPORTED_AUTH_MODE
        | code::UNKNOWN_COLLATION
        | code::BINLOG_ROW_MODE_AND_STMT_ENGINE
        | code::ACCESS_DENIED_NO_PASSWORD
        | code::MUST_CHANGE_PASSWORD
        | code::MUST_CHANGE_PASSWORD_LOGIN
        | code::READ_ONLY_TRANSACTION
        | code::SECURE_TRANSPORT_REQUIRED => Configuration,
        _ => Rejected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two nodes of a cluster wrote the same row: at a COMMIT, or in a statement that commits by itself.
    #[test]
    fn a_collision_with_another_node_is_retried() {
        for code in [
            code::LOCK_DEADLOCK,
            code::TRANSACTION_ROLLBACK_DURING_COMMIT,
            code::ERROR_DURING_COMMIT,
        ] {
            assert_eq!(kind(code), Conflict, "{code}");
        }
        assert!(!is_rolled_back(code::ERROR_DURING_COMMIT));
    }

    /// P9: while a node leaves its cluster or comes back, another node should be used.
    #[test]
    fn a_node_that_is_no_member_can_not_be_had() {
        for code in [
            code::UNKNOWN_COM_ERROR,
            code::GRP_TRX_CONSISTENCY_NOT_ALLOWED,
            code::GRP_TRX_CONSISTENCY_BEFORE,
            code::GRP_TRX_CONSISTENCY_BEGIN_NOT_ALLOWED,
        ] {
            assert_eq!(kind(code), Unavailable, "{code}");
        }
    }
}
