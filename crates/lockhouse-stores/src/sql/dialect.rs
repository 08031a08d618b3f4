//! What each kind of server has of its own.

use futures_util::stream::BoxStream;
use lockhouse_core::store::{Error, Kind, Page, Purge};
use lockhouse_core::{
    Changes, ExternalId, Footprint, Owner, ProcessId, Semaphore, SemaphoreName, Slots, Timestamp,
};
use sqlx::Either;
use sqlx::error::DatabaseError;
use std::collections::BTreeSet;
use std::fmt::{self, Display};

use super::due::Look;
use super::load::RowIds;
use super::pool::Lease;
use super::read::Names;
use super::rows::TextRow;
use super::script::Script;
use crate::walk::Stretch;

/// The driver's connection.
pub(crate) type ConnectionOf<D> = <<D as Driver>::Database as sqlx::Database>::Connection;

/// Where the driver connects to.
pub(crate) type OptionsOf<D> = <ConnectionOf<D> as sqlx::Connection>::Options;

/// The driver's row.
pub(crate) type RowOf<D> = <<D as Driver>::Database as sqlx::Database>::Row;

/// What a script answers, piece by piece: a row, or the end of a statement's.
pub(crate) type Pieces<'c, D> = BoxStream<
    'c,
    Result<Either<<<D as Driver>::Database as sqlx::Database>::QueryResult, RowOf<D>>, sqlx::Error>,
>;

/// How a kind of server is spoken to, and what its errors mean.
pub trait Driver: fmt::Debug + Send + Sync + Sized + 'static {
    /// The driver's name for it.
    type Database: sqlx::Database<Row: TextRow>;

    /// What every session is set to, in one round trip.
    const SESSION: &'static str;

    /// Whether poolers that lend one session to several clients are usual.
    const MAY_BE_POOLED: bool;

    /// What the server calls the most that it takes at once.
    const LONGEST_SCRIPT_IS: &'static str;

    /// How many bytes a script may have, from what the last statement of [`SESSION`](Self::SESSION)
    /// answered. A larger one would cost the connection, and look as if the server had gone.
    fn longest_script(session: &[RowOf<Self>]) -> Result<usize, Error>;

    /// How the server may lose what it has answered, from the same, for the log; none if it can't.
    fn risk(session: &[RowOf<Self>]) -> Result<Option<String>, Error>;

    /// What else the session is set by on a node of a cluster, in one more round trip, from what the last
    /// statement of [`SESSION`](Self::SESSION) answered. Such a session is sent its scripts
    /// [guarded](Script::guarded).
    fn settings(session: &[RowOf<Self>]) -> Result<Option<String>, Error> {
        let _ = session;
        Ok(None)
    }

    /// Whether the server is one to speak to, from that and from what the last of the
    /// [`settings`](Self::settings) answered, if there are any and the user may ask it.
    fn check(session: &[RowOf<Self>], settled: Option<&[RowOf<Self>]>) -> Result<(), Error> {
        let _ = (session, settled);
        Ok(())
    }

    /// Sends `sql` in one packet, without preparing it.
    fn send<'c>(connection: &'c mut ConnectionOf<Self>, sql: &'c str) -> Pieces<'c, Self>;

    /// The kind of what the server says before it came to a COMMIT.
    fn kind(error: &dyn DatabaseError) -> Kind;

    /// Whether what the server says at a COMMIT means that it rolled back.
    fn is_rolled_back(error: &dyn DatabaseError) -> bool;

    /// What to do about it.
    fn advice(error: &dyn DatabaseError) -> Option<&'static str>;
}

/// How rows of a table are found by the key that callers know them by.
#[derive(Debug)]
pub struct ByKey {
    /// The table with its alias, and the index to use where the server has to be told.
    pub(crate) table: &'static str,
    /// The column of the key.
    pub(crate) key: &'static str,
}

/// The SQL that a kind of server takes. The rows that each script answers have the columns that
/// [`rows`](super::rows) reads.
pub trait Dialect: Driver {
    /// What tells of changes that other processes make.
    type Bell: fmt::Debug + Send + Sync + 'static;

    /// Begins a transaction.
    const BEGIN: &'static str;

    /// Semaphores, requests and owners' sessions.
    const BY_KEY: [ByKey; 3];

    /// Ends a SELECT that locks its rows against changes and not against other readers.
    const SHARED: &'static str;

    /// Semaphores by their template and capacity, and by their template and their last use.
    const BY_TEMPLATE: [&'static str; 2];

    /// Asks for the clock, as it is when this is run.
    const CLOCK: &'static str;

    /// The clock as an expression, as it is when the statement is run.
    const NOW: &'static str;

    /// The version of the schema that this code needs.
    const SCHEMA: u32;

    /// Counts the tables called `lockhouse_schema_version` that the session finds: 0 or 1.
    const HAS_SCHEMA: &'static str;

    /// `text` as a literal without a byte in it that a caller chose.
    fn text(text: &str) -> impl Display + '_;

    /// `time` as a literal, in UTC, to the microsecond.
    fn time(time: Timestamp) -> impl Display;

    /// Begins a transaction that locks `footprint` in its order, and reads the clock last. Answers
    /// the semaphores, requests and sessions that there are, each if any are asked for.
    fn load(footprint: &Footprint) -> Script;

    /// The SELECT of those of `ids` that there are; locks nothing.
    fn known(ids: &BTreeSet<&ExternalId>) -> String;

    /// The permits of the requests of `ids`.
    fn permits(ids: &[u64]) -> Script;

    /// Writes `changes` to the rows that are locked, and commits. `rows` has the ids of new requests
    /// too.
    fn save(changes: &Changes, rows: &RowIds) -> Result<Script, Error>;

    /// Makes `rows` ready, unless they are there.
    fn make_ready(rows: &[Semaphore]) -> Script;

    /// Those of the semaphores called `names`, at least one, that are not deleted.
    fn named(names: &[SemaphoreName]) -> Script;

    /// Those of the semaphores of `names` that are on `page`.
    fn semaphores(names: &Names, page: &Page<SemaphoreName>) -> Script;

    /// The request with its permits.
    fn request(external_id: &ExternalId) -> Script;

    /// A SELECT of the entries of a stretch of the index of live requests, or of those of `owner`, in its order.
    fn stretch(owner: Option<&Owner>, stretch: &Stretch) -> String;

    /// Those of the requests of `ids` that are live, with their permits.
    fn live(ids: &[u64]) -> Script;

    /// Capacity changes, newest first.
    fn history(name: &SemaphoreName, limit: u32) -> Script;

    /// What has lapsed at `now`, with its permits.
    fn lapsed(now: Timestamp, limit: u32) -> Script;

    /// What of that a `look` is for, with its permits.
    fn lapsed_on(look: &Look<'_>, now: Timestamp, limit: u32) -> Script;

    /// A SELECT of a row for each session that has lapsed by now, at most `limit`.
    fn lapsed_sessions(limit: u32) -> String;

    /// What is live of `owner`, with its permits.
    fn owned_by(owner: &Owner, limit: u32) -> Script;

    /// When the one after `skipped` others was made, of the live requests without a time to live
    /// that were made after `after`, but not after `cutoff`, from the oldest on.
    fn last_of_age(after: Timestamp, cutoff: Timestamp, skipped: u32) -> Script;

    /// Those of them that were made by `to` and that no session keeps at `now`, with their permits.
    fn stale(after: Timestamp, to: Timestamp, now: Timestamp) -> Script;

    /// Owners of live requests.
    fn owners(page: &Page<Owner>) -> Script;

    /// Finds the keys of the oldest rows that `what` may go, and locks nothing.
    fn find_past(what: Purge, cutoff: Timestamp, limit: u32) -> Script;

    /// Begins a transaction that locks those of `keys`, literals with commas, that nobody else has
    /// locked, and says their ids.
    fn lock_past(what: Purge, cutoff: Timestamp, keys: &str) -> Script;

    /// Deletes the rows of `ids`, literals, which are locked, and commits.
    fn delete_past(what: Purge, ids: &[String]) -> Script;

    /// Writes rows of `lockhouse_waiting`: semaphore, process, waiters, time.
    fn show(rows: &str) -> String;

    /// Writes a row of `lockhouse_token`, unless there is one of its name: name, digest, grants, and the times of its
    /// making, its end and its revocation.
    fn add_token(row: &str) -> String;

    /// Those of `owners`, literals with commas, that hold live requests.
    fn holding(owners: &str) -> String;

    /// Counts everything in one consistent read: semaphores, sums, the slots of live permits, torn requests, in the four
    /// answers before the last.
    fn recount(torn: usize) -> Script;

    /// The semaphore's id and the greatest fence of its permits.
    fn last_fence(name: &SemaphoreName) -> Script;

    /// Begins a transaction that locks the semaphore, and then sums what is live of `id`, and counts
    /// these requests that are filed under another semaphore.
    fn count_live(name: &SemaphoreName, id: u64) -> Script;

    /// The slots of the live permits of the semaphore of `id`, which is locked.
    fn live_slots(id: u64) -> Script;

    /// Sets the counter, the fence and the slots that are taken, files the misfiled requests as if they held several
    /// semaphores, and commits.
    fn write_counts(id: u64, in_use: u32, fence: u64, slots: Option<&Slots>) -> Script;

    /// A bell of the server at `options`, which has not connected yet.
    fn bell(options: &OptionsOf<Self>) -> Self::Bell;

    /// Waits until something may have changed of `on` for `process`, and says of what.
    fn rung(
        bell: &Self::Bell,
        on: &BTreeSet<SemaphoreName>,
        process: ProcessId,
    ) -> impl Future<Output = BTreeSet<SemaphoreName>> + Send;

    /// Takes the schema from version `found` to [`SCHEMA`](Self::SCHEMA).
    fn migrate(
        lease: &mut Lease<Self>,
        found: u32,
    ) -> impl Future<Output = Result<(), Error>> + Send;
}
