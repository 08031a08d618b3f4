//! How to connect to the kinds of servers.
//!
//! A new kind of server implements [`Driver`], and [`Dialect`](super::Dialect) for its SQL. [`Sql`](super::Sql) of the
//! type that implements both is the store.

use std::fmt;

use futures_util::stream::BoxStream;
use lockhouse_core::store::{Error, Kind};
use sqlx::Either;
use sqlx::error::DatabaseError;

use super::rows::TextRow;
use super::script::Script;

/// The driver's connection.
pub(crate) type ConnectionOf<D> = <<D as Driver>::Database as sqlx::Database>::Connection;

/// The driver's row.
pub(crate) type RowOf<D> = <<D as Driver>::Database as sqlx::Database>::Row;

/// The answers of a script: rows, and the ends of statements.
pub(crate) type Pieces<'c, D> = BoxStream<
    'c,
    Result<Either<<<D as Driver>::Database as sqlx::Database>::QueryResult, RowOf<D>>, sqlx::Error>,
>;

/// Why a session may not write.
#[derive(Clone, Copy, Debug)]
pub struct ReadOnly {
    /// The kind of the error that a write gets.
    pub(crate) kind: Kind,
    /// Advice for the operator.
    pub(crate) advice: &'static str,
}

/// How to connect to a kind of server, and the meaning of its errors.
///
/// The argument `session` is the answer to the last statement of [`SESSION`](Self::SESSION), which a connection executes
/// when it opens.
pub trait Driver: fmt::Debug + Send + Sync + Sized + 'static {
    /// The driver's name for it.
    type Database: sqlx::Database<Row: TextRow>;

    /// The settings of every session, in one round trip.
    const SESSION: &'static str;

    /// Whether poolers that share a session among clients are common.
    const MAY_BE_POOLED: bool;

    /// The server's name for its limit on the length of a script.
    const LONGEST_SCRIPT_IS: &'static str;

    /// How many bytes a script may have. A longer script would break the connection, as if the server had
    /// gone.
    fn longest_script(session: &[RowOf<Self>]) -> Result<usize, Error>;

    /// How the server may lose answered commits, for the log. `None` if it cannot.
    fn risk(session: &[RowOf<Self>]) -> Result<Option<String>, Error>;

    /// Further settings on a cluster node, in one more round trip. `None` on any other server. A session with further
    /// settings gets its scripts [guarded](super::Script::guarded).
    fn settings(session: &[RowOf<Self>]) -> Result<Option<String>, Error> {
        let _ = session;
        Ok(None)
    }

    /// The script by which another session interrupts the INSERT that this one executes. It fails, and changes nothing, if
    /// this session executes something else, or if no session on the server waits for a row lock. `None` if the server itself
    /// ends a statement that waits for a lock for too long.
    fn interrupt(session: &[RowOf<Self>]) -> Result<Option<Script>, Error> {
        let _ = session;
        Ok(None)
    }

    /// Whether a server's error says that the statement was interrupted.
    fn is_interrupted(error: &dyn DatabaseError) -> bool {
        let _ = error;
        false
    }

    /// Checks that the server may be used. `settled` is the answer to the last of the [`settings`](Self::settings), if there
    /// are any and the user may read it.
    fn check(session: &[RowOf<Self>], settled: Option<&[RowOf<Self>]>) -> Result<(), Error> {
        let _ = (session, settled);
        Ok(())
    }

    /// Why the server refuses writes in this session. `None` if it is not known to refuse them.
    fn read_only(session: &[RowOf<Self>]) -> Result<Option<ReadOnly>, Error> {
        let _ = session;
        Ok(None)
    }

    /// Whether a server's error says that the session may not write.
    fn is_read_only(error: &dyn DatabaseError) -> bool {
        let _ = error;
        false
    }

    /// Sends `sql` in one packet, without preparing it.
    fn send<'c>(connection: &'c mut ConnectionOf<Self>, sql: &'c str) -> Pieces<'c, Self>;

    /// The kind of a server's error before a COMMIT.
    fn kind(error: &dyn DatabaseError) -> Kind;

    /// Whether a server's error at a COMMIT means that it rolled back.
    fn is_rolled_back(error: &dyn DatabaseError) -> bool;

    /// Advice for the operator on a server's error.
    fn advice(error: &dyn DatabaseError) -> Option<&'static str>;
}
