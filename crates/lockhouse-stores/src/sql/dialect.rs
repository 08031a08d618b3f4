//! The SQL of the kinds of servers.

use lockhouse_core::store::{Error, Page, Purge};
use lockhouse_core::{
    Changes, NamePrefix, Owner, ProcessId, SemaphoreName, SemaphoreRow, Slots, Timestamp,
};
use std::collections::BTreeSet;
use std::fmt::{self, Display};
use std::sync::Arc;

use sqlx::error::DatabaseError;

use super::driver::Driver;
use super::hosts::Hosts;
use super::pool::Lease;
use super::row_ids::RowIds;
use super::script::Script;
use crate::walk::Stretch;

/// Which semaphores are listed.
#[derive(Clone, Debug)]
pub(crate) enum Names {
    /// Semaphores that are not deleted, and whose names begin with this prefix.
    Existing(Option<NamePrefix>),
    /// All semaphores, including deleted ones.
    Ever,
}

/// A look for lapsed requests on some semaphores.
#[derive(Debug)]
pub struct Look<'a> {
    /// The ids of their rows.
    pub(crate) on: &'a [u64],
    /// Skips sessions that lapsed by then, except those by whose silence a request has ended.
    pub(crate) left_out: Timestamp,
}

/// How to find rows of a table by their name or id.
#[derive(Debug)]
pub struct ByKey {
    /// The table with its alias, and an index hint where the server needs one.
    pub(crate) table: &'static str,
    /// The column of the key.
    pub(crate) key: &'static str,
}

/// The SQL of a kind of server. The rows of each script have the columns that [`rows`](super::rows)
/// reads.
pub trait Dialect: Driver {
    /// Notifies of changes by other processes.
    type Notifier: fmt::Debug + Send + Sync + 'static;

    /// Begins a transaction.
    const BEGIN: &'static str;

    /// Semaphores, requests and owners' sessions. A row is found by its key's index, and rows are
    /// locked in its order, which is byte order.
    const BY_KEY: [ByKey; 3];

    /// The beginning of a SELECT that locks rows. It waits for all of them for at most half a second
    /// (P13), if the session does not already see to that.
    const SELECT_TO_LOCK: &'static str;

    /// Semaphores by their template and capacity, and by their template and their last use.
    const BY_TEMPLATE: [&'static str; 2];

    /// Selected from some rows: fails with an error that [says so](Self::says_some_exist) if there are any.
    const NONE_EXIST: &'static str;

    /// Reads the clock at the time of execution.
    const CLOCK: &'static str;

    /// The clock as an expression, read when the statement runs.
    const NOW: &'static str;

    /// The version of the schema that this code needs.
    const SCHEMA: u32;

    /// Selects the number that the session has [noted](Self::noted) last. Empty if the server locks no gaps between rows,
    /// so that no INSERT waits for another transaction's lock of a gap.
    const NOTED: &'static str;

    /// Counts the tables called `lockhouse_schema_version` that the session finds: 0 or 1.
    const HAS_SCHEMA: &'static str;

    /// `text` as a literal that contains no byte of the caller's.
    fn text(text: &str) -> impl Display + '_;

    /// `time` as a literal, in UTC, to the microsecond.
    fn time(time: Timestamp) -> impl Display;

    /// Whether `error` is that of [`NONE_EXIST`](Self::NONE_EXIST).
    fn says_some_exist(error: &dyn DatabaseError) -> bool;

    /// The permits of the requests `ids`.
    fn permits(ids: &[u64]) -> Script;

    /// `script`, and after it what writes `changes` to the locked rows and commits. `rows` has the ids of new requests
    /// too.
    fn save(script: Script, changes: &Changes, rows: &RowIds) -> Result<Script, Error>;

    /// `value` as an expression in a row of an INSERT. Where the server locks gaps, the session notes
    /// `mark` when it comes to the row, for [`NOTED`](Self::NOTED).
    fn noted(mark: u64, value: u64) -> impl Display;

    /// The requests that `chosen` selects, with their permits.
    fn with_permits(chosen: &str) -> Script;

    /// Inserts `rows`, unless they exist, and commits, so that they can be locked. Until the first definition such a row looks
    /// like that of a deleted semaphore.
    fn insert_missing(rows: &[SemaphoreRow]) -> Script;

    /// A SELECT of the entries of a stretch of the index of live requests, or of `owner`'s live
    /// requests, in its order.
    fn stretch(owner: Option<&Owner>, stretch: &Stretch) -> String;

    /// The live requests among `ids`, with their permits.
    fn live(ids: &[u64]) -> Script;

    /// Capacity changes, newest first.
    fn history(name: &SemaphoreName, limit: u32) -> Script;

    /// The requests that have lapsed at `now`, with their permits.
    fn lapsed(now: Timestamp, limit: u32) -> Script;

    /// The lapsed requests that a `look` needs, with their permits.
    fn lapsed_on(look: &Look<'_>, now: Timestamp, limit: u32) -> Script;

    /// Begins a look: one row for each of the semaphores `on` that is not deleted. It has the id, the
    /// clock, and the number of lapsed sessions, which are counted up to `sessions`.
    fn look(on: &[SemaphoreName], sessions: u32) -> Script;

    /// The live requests of `owner`, with their permits.
    fn owned_by(owner: &Owner, limit: u32) -> Script;

    /// When a request was created: of the live requests without a TTL that were created after `after` and not after
    /// `cutoff`, oldest first, the one after the first `skipped`.
    fn last_of_age(after: Timestamp, cutoff: Timestamp, skipped: u32) -> Script;

    /// The live requests without a TTL that were created after `after` and not after `to`, and that no session keeps at
    /// `now`, with their permits.
    fn stale(after: Timestamp, to: Timestamp, now: Timestamp) -> Script;

    /// Owners of live requests.
    fn owners(page: &Page<Owner>) -> Script;

    /// Finds the keys of the oldest rows that `what` may delete, and locks nothing.
    fn find_past(what: Purge, cutoff: Timestamp, limit: u32) -> Script;

    /// Begins a transaction that locks those of `keys` that no other transaction has locked, and
    /// selects their ids. `keys` are literals with commas.
    fn lock_past(what: Purge, cutoff: Timestamp, keys: &str) -> Script;

    /// Deletes the locked rows `ids`, which are literals, and commits.
    fn delete_past(what: Purge, ids: &[String]) -> Script;

    /// Inserts or replaces `rows` of `lockhouse_waiting`: semaphore, process, waiters, time.
    fn show(rows: &str) -> String;

    /// Writes a row of `lockhouse_token`, unless one of its name exists: name, digest, grants, and
    /// the times of creation, expiry and revocation.
    fn add_token(row: &str) -> String;

    /// The owners among `owners` that hold live requests. `owners` are literals with commas.
    fn holding(owners: &str) -> String;

    /// Counts everything in one consistent read: semaphores, sums, the slots of live permits, torn requests, in the four
    /// answers before the last.
    fn recount(torn: usize) -> Script;

    /// The semaphore's id and the greatest fence of its permits.
    fn last_fence(name: &SemaphoreName) -> Script;

    /// Begins a transaction that locks the semaphore, then sums its live permits, and counts the
    /// live requests that are filed under another semaphore.
    fn count_live(name: &SemaphoreName, id: u64) -> Script;

    /// The slots of the live permits of the locked semaphore `id`.
    fn live_slots(id: u64) -> Script;

    /// Sets the counter, the fence and the taken slots, files the misfiled requests as if they held
    /// several semaphores, and commits.
    fn write_counts(id: u64, in_use: u32, fence: u64, slots: Option<&Slots>) -> Script;

    /// The notifications of the server at `options`. It does not connect yet.
    fn notifier(hosts: &Arc<Hosts<Self>>) -> Self::Notifier;

    /// Waits until one of `on` may have changed for `process`. Returns which ones.
    fn changed(
        notifier: &Self::Notifier,
        on: &BTreeSet<SemaphoreName>,
        process: ProcessId,
    ) -> impl Future<Output = BTreeSet<SemaphoreName>> + Send;

    /// Takes the schema from version `found` to [`SCHEMA`](Self::SCHEMA).
    fn migrate(
        lease: &mut Lease<Self>,
        found: u32,
    ) -> impl Future<Output = Result<(), Error>> + Send;
}
