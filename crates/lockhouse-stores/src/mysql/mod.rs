//! A store in MySQL or MariaDB, for any number of processes on any number of machines.
//!
//! A batch is two round trips:
//!
//! ```text
//! START TRANSACTION                           INSERT requests, permits
//! SELECT semaphores … FOR UPDATE              UPDATE semaphores
//! SELECT known ones … FOR UPDATE   decide     UPDATE renewed, ended
//! SELECT sessions … FOR UPDATE        ▶       INSERT or DELETE sessions
//! SELECT the clock                            COMMIT
//! ```
//!
//! There is one more round trip in between if a request's permits are not cached. The id of an ask is taken for new, so the
//! "known ones" are the requests that other commands name. If it was not new, the unique key refuses it, and the batch
//! begins again. The ids of refused asks are looked up at the beginning of the second packet, which fails if there is one.
//!
//! - **Locks** are row locks, taken in byte order: semaphores, then requests, then
//!   owners' sessions. Batches on different semaphores do not wait for each other, and no order of
//!   names deadlocks. Only a repeated id may deadlock: the INSERT finds its row after the others
//!   are locked. Then the server aborts one of the two transactions, which is retried.
//! - **Every grant and release writes the semaphore's row**. On a cluster with several writers, row
//!   locks are local to a node. There, two transactions that wrote the same row collide, and one of
//!   them fails.
//! - **READ COMMITTED**: a read after a lock wait sees the rows that were committed meanwhile, and
//!   gaps are not locked.
//! - **On a cluster** a session also sees what other nodes have answered; see `cluster`.
//! - **The clock** is `SYSDATE(6)`, evaluated once the locks are held.
//! - **The row of a new semaphore** is inserted before, in a separate transaction, and counts as
//!   deleted until the batch defines it.
//!
//! This folder has the SQL: `load` and `save` are for the two packets, `read` and `due` find rows,
//! `purge` deletes old rows, `recount` verifies, `schema` migrates, `sql` writes literals, and
//! `error` knows the codes. `walk` pages through live requests, `driver` sets up a session, and `url` parses the URL. The
//! code that runs the SQL is in `crate::sql`, which the stores on servers share.

mod cluster;
mod driver;
mod due;
mod error;
mod load;
#[cfg(test)]
mod on_servers;
mod purge;
mod read;
mod recount;
mod save;
mod schema;
mod sql;
mod url;
mod walk;

use std::collections::BTreeSet;
use std::fmt::Display;
use std::sync::Arc;

use lockhouse_core::store::{Error, Page, Purge};
use lockhouse_core::{Changes, Owner, ProcessId, SemaphoreName, SemaphoreRow, Slots, Timestamp};

use sqlx::error::DatabaseError;

use crate::sql::{ByKey, Dialect, Hosts, Lease, Look, RowIds, Script, Sql};
use crate::walk::Stretch;
pub(crate) use driver::MySqlServer;
use sql::{Text, Time};

/// Keeps permits in a MySQL (8.0.17 or newer) or MariaDB (10.6 or newer) database.
///
/// - **Clock**: the server's.
/// - **Fairness, cancellation, time**: those of [`Sql`].
/// - **Rights**: SELECT, INSERT, UPDATE and DELETE on the database; for
///   [`migrate`](lockhouse_core::store::Migration::migrate) also CREATE, ALTER and INDEX.
///
/// ```
/// use lockhouse_stores::MySql;
///
/// let store = MySql::open("mysql://app:secret@db/lockhouse?connections=8&ssl-mode=required")?;
/// # Ok::<(), lockhouse_core::store::Error>(())
/// ```
pub type MySql = Sql<MySqlServer>;

impl MySql {
    /// A store in the database of `mysql://USER:PASSWORD@HOST:PORT/DATABASE`, or `mariadb://…`,
    /// which is the same.
    ///
    /// It does not connect yet. The database must exist;
    /// [`migrate`](lockhouse_core::store::Migration::migrate) creates the tables in it. Parameters
    /// of the URL:
    ///
    /// | parameter | default | |
    /// |---|---|---|
    /// | `connections` | 16 | the most connections to have at once |
    /// | `ssl-mode` | `preferred` | `disabled`, `preferred`, `required`, `verify_ca`, `verify_identity` |
    /// | `ssl-ca`, `ssl-cert`, `ssl-key` | | PEM files: whom to trust, and who we are. With `ssl-ca` the default of `ssl-mode` is `verify_identity`, and a mode that verifies nothing is refused. `verify_ca` needs `ssl-ca` and does not check the host name, where the program patches sqlx-core as Lockhouse's own programs do (ADR 1) |
    /// | `socket` | | a Unix socket to connect to instead of HOST |
    ///
    /// # Errors
    /// [`Kind::Configuration`](lockhouse_core::store::Kind::Configuration) if the URL is malformed,
    /// names no database, or has a parameter that is unknown.
    pub fn open(url: &str) -> Result<Self, Error> {
        url::parse(url).map(Self::at)
    }
}

/// The driver's options from a URL of MySQL's, by the same rules about certificates as the store's. For checks of owners.
///
/// # Errors
/// [`Kind::Configuration`](lockhouse_core::store::Kind::Configuration) when the URL is malformed, or its parameters
/// contradict each other. It shows nothing of the URL.
#[doc(hidden)]
pub fn mysql_options(url: &str) -> Result<sqlx::mysql::MySqlConnectOptions, Error> {
    url::options(&crate::sql::parsed(url)?)
}

impl Dialect for MySqlServer {
    /// MySQL and MariaDB have no notifications.
    type Notifier = ();

    const BEGIN: &'static str = sql::BEGIN;
    const BY_KEY: [ByKey; 3] = load::BY_KEY;
    const SELECT_TO_LOCK: &'static str = load::SELECT;
    const BY_TEMPLATE: [&'static str; 2] = [
        "lockhouse_semaphore s FORCE INDEX (template)",
        "lockhouse_semaphore s FORCE INDEX (used)",
    ];
    const NONE_EXIST: &'static str = sql::NONE_EXIST;
    const CLOCK: &'static str = sql::CLOCK;
    const NOW: &'static str = "SYSDATE(6)";
    const SCHEMA: u32 = schema::VERSION;
    const HAS_SCHEMA: &'static str = schema::HAS_SCHEMA;
    const NOTED: &'static str = save::NOTED;

    fn text(text: &str) -> impl Display + '_ {
        Text(text)
    }

    fn time(time: Timestamp) -> impl Display {
        Time(time)
    }

    fn says_some_exist(error: &dyn DatabaseError) -> bool {
        error::number(error) == error::code::SUBQUERY_HAS_MORE_ROWS
    }

    fn permits(ids: &[u64]) -> Script {
        load::permits(ids)
    }

    fn save(script: Script, changes: &Changes, rows: &RowIds) -> Result<Script, Error> {
        save::script(script, changes, rows)
    }

    fn noted(mark: u64, value: u64) -> impl Display {
        save::Noted { mark, value }
    }

    fn with_permits(chosen: &str) -> Script {
        read::with_permits(chosen)
    }

    fn insert_missing(rows: &[SemaphoreRow]) -> Script {
        save::insert_missing(rows)
    }

    fn stretch(owner: Option<&Owner>, stretch: &Stretch) -> String {
        walk::stretch(owner, stretch)
    }

    fn live(ids: &[u64]) -> Script {
        walk::live(ids)
    }

    fn history(name: &SemaphoreName, limit: u32) -> Script {
        read::history(name, limit)
    }

    fn lapsed(now: Timestamp, limit: u32) -> Script {
        read::with_permits(&due::lapsed(now, limit))
    }

    fn lapsed_on(look: &Look<'_>, now: Timestamp, limit: u32) -> Script {
        read::with_permits(&due::lapsed_on(look, now, limit))
    }

    fn look(on: &[SemaphoreName], sessions: u32) -> Script {
        due::look(on, sessions)
    }

    fn owned_by(owner: &Owner, limit: u32) -> Script {
        read::with_permits(&due::owned_by(owner, limit))
    }

    fn last_of_age(after: Timestamp, cutoff: Timestamp, skipped: u32) -> Script {
        due::last_of_age(after, cutoff, skipped)
    }

    fn stale(after: Timestamp, to: Timestamp, now: Timestamp) -> Script {
        read::with_permits(&due::stale(after, to, now))
    }

    fn owners(page: &Page<Owner>) -> Script {
        due::owners(page)
    }

    fn find_past(what: Purge, cutoff: Timestamp, limit: u32) -> Script {
        purge::find(what, cutoff, limit)
    }

    fn lock_past(what: Purge, cutoff: Timestamp, keys: &str) -> Script {
        purge::lock(what, cutoff, keys)
    }

    fn delete_past(what: Purge, ids: &[String]) -> Script {
        purge::delete(what, ids)
    }

    fn show(rows: &str) -> String {
        format!(
            "INSERT INTO lockhouse_waiting (semaphore,process,waiters,written_at) VALUES {rows} \
             ON DUPLICATE KEY UPDATE waiters=VALUES(waiters),written_at=VALUES(written_at)"
        )
    }

    fn add_token(row: &str) -> String {
        format!(
            "INSERT IGNORE INTO lockhouse_token \
             (name,digest,grants,created_at,expires_at,revoked_at) VALUES {row}"
        )
    }

    fn holding(owners: &str) -> String {
        format!(
            "SELECT DISTINCT r.held_by FROM lockhouse_permit_request r FORCE INDEX (held_by) \
             WHERE r.held_by IN ({owners})"
        )
    }

    fn recount(torn: usize) -> Script {
        recount::count(torn)
    }

    fn last_fence(name: &SemaphoreName) -> Script {
        recount::last_fence(name)
    }

    fn count_live(name: &SemaphoreName, id: u64) -> Script {
        recount::count_live(name, id)
    }

    fn live_slots(id: u64) -> Script {
        recount::live_slots(id)
    }

    fn write_counts(id: u64, in_use: u32, fence: u64, slots: Option<&Slots>) -> Script {
        recount::write_counts(id, in_use, fence, slots)
    }

    fn notifier(_: &Arc<Hosts<Self>>) {}

    async fn changed(
        (): &(),
        _: &BTreeSet<SemaphoreName>,
        _: ProcessId,
    ) -> BTreeSet<SemaphoreName> {
        std::future::pending().await
    }

    async fn migrate(lease: &mut Lease<Self>, found: u32) -> Result<(), Error> {
        schema::migrate(lease, found).await
    }
}
