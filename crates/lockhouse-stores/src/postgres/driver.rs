//! The driver for PostgreSQL servers.
//!
//! It uses the simple query protocol: several statements in one packet, all answers as text. A
//! packet without a BEGIN is one transaction.

use lockhouse_core::store::{Error, Kind};
use sqlx::Executor as _;
use sqlx::error::DatabaseError;
use sqlx::postgres::{PgConnection, PgRow, Postgres as Database};

use super::error;
use crate::misconfigured::configuration;
use crate::sql::rows::TextRow;
use crate::sql::{Driver, Pieces, ReadOnly};

/// A PostgreSQL server.
#[derive(Debug)]
pub struct PostgresServer;

/// The settings of every session, in one round trip.
///
/// - The locks of a client that has vanished end within 5 s. A statement may take as long as a
///   call; one that may take longer sets its own limit.
/// - Rows are found by their index, whatever the server's statistics say: they are wrong for a
///   table that has just grown or was never analyzed. Such plans look so expensive that the server
///   would compile them, so JIT is off.
/// - An answered COMMIT is on disk, even if the database is set to answer earlier.
/// - A session that has been used before belongs to another client. A pooler in transaction mode
///   hands sessions on unchanged; one in session mode resets them in between.
/// - Settings of the role or the database that would change a result or refuse a statement are
///   undone: `docs/operations/databases.md` lists each with its reason. With `row_security` off, a policy that
///   would hide rows is an error.
const SESSION: &str = "SET lock_timeout='500ms';SET statement_timeout='9s';\
    SET idle_in_transaction_session_timeout='5s';SET client_min_messages=warning;\
    SET enable_seqscan=off;SET enable_bitmapscan=off;SET enable_indexscan=on;SET jit=off;\
    SET default_transaction_isolation='read committed';SET idle_session_timeout=0;\
    SET row_security=off;SET transform_null_equals=off;SET array_nulls=on;\
    SELECT set_config('transaction_timeout','0',false) \
    WHERE current_setting('transaction_timeout',true) IS NOT NULL;\
    SELECT set_config('synchronous_commit','on',false) \
    WHERE current_setting('synchronous_commit')='off';\
    SELECT current_setting('server_encoding'),current_setting('fsync'),\
    current_setting('lockhouse.session',true),set_config('lockhouse.session','begun',false),\
    current_setting('default_transaction_read_only'),pg_is_in_recovery()::text";

/// A promotion lets a standby write, and so may a failover.
const STANDBY: ReadOnly = ReadOnly {
    kind: Kind::Unavailable,
    advice: "the server is a standby, which takes no writes; connect to the primary",
};

/// A setting of the server, the database or the role.
const SET_TO_READ: ReadOnly = ReadOnly {
    kind: Kind::Configuration,
    advice: "default_transaction_read_only is on, so nothing can be written; set it off by ALTER ROLE, \
        ALTER DATABASE or ALTER SYSTEM, or connect as another role",
};

/// The server takes messages of up to one byte less than a gibibyte.
const LONGEST_SCRIPT: usize = (1 << 30) - 1024;

/// A column of the row that the last statement of [`SESSION`] answers.
fn column(session: &[PgRow], at: usize) -> Result<&str, Error> {
    let unclear = || Error::new(Kind::Unavailable, "setting the session");
    let [row] = session else {
        return Err(unclear());
    };
    let text = TextRow::text(row, at).map_err(|error| unclear().caused_by(error))?;
    Ok(text.unwrap_or_default())
}

impl Driver for PostgresServer {
    type Database = Database;
    const SESSION: &'static str = SESSION;
    const MAY_BE_POOLED: bool = true;
    const LONGEST_SCRIPT_IS: &'static str = "1 GiB";

    fn longest_script(session: &[PgRow]) -> Result<usize, Error> {
        let encoding = column(session, 0)?;
        if encoding != "UTF8" {
            return Err(configuration(format!(
                "the database's encoding is {encoding}; make one with ENCODING 'UTF8'"
            )));
        }
        Ok(LONGEST_SCRIPT)
    }

    fn risk(session: &[PgRow]) -> Result<Option<String>, Error> {
        let risk = "the server is set to fsync=off: a crash of its machine may lose grants and \
            releases that it has answered, and damage the database; set fsync=on";
        Ok((column(session, 1)? == "off").then(|| risk.to_owned()))
    }

    fn check(session: &[PgRow], _: Option<&[PgRow]>) -> Result<(), Error> {
        if column(session, 2)?.is_empty() {
            return Ok(());
        }
        Err(configuration(
            "a pooler gives the session of one client to another; have it pool by session \
             (PgBouncer: pool_mode=session with its server_reset_query), or connect to the server",
        ))
    }

    fn read_only(session: &[PgRow]) -> Result<Option<ReadOnly>, Error> {
        if column(session, 5)? == "true" {
            return Ok(Some(STANDBY));
        }
        Ok((column(session, 4)? == "on").then_some(SET_TO_READ))
    }

    fn is_read_only(error: &dyn DatabaseError) -> bool {
        error::is_read_only(&error::code(error))
    }

    fn send<'c>(connection: &'c mut PgConnection, sql: &'c str) -> Pieces<'c, Self> {
        connection.fetch_many(sqlx::raw_sql(sql))
    }

    fn kind(error: &dyn DatabaseError) -> Kind {
        error::kind(&error::code(error))
    }

    fn is_rolled_back(error: &dyn DatabaseError) -> bool {
        error::is_rolled_back(&error::code(error))
    }

    fn advice(error: &dyn DatabaseError) -> Option<&'static str> {
        error::advice(&error::code(error))
    }
}
