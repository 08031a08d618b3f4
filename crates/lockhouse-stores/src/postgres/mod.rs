//! A store in PostgreSQL, for any number of processes on any number of machines.
//!
//! A batch is two round trips:
//!
//! ```text
//! BEGIN                                       INSERT requests, permits
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
//! - **Locks** are row locks, taken in byte order: semaphores, then requests, then owners' sessions.
//!   Batches on different semaphores do not wait for each other, and no order of names deadlocks.
//! - **READ COMMITTED**: each statement sees the rows that were committed before it began, and a
//!   statement that locks a row sees its latest version. So rows that must be current under the
//!   locks are read by a statement after the one that takes the locks.
//! - **The clock** is `clock_timestamp()`, evaluated once the locks are held.
//! - **The semaphore's row** gets a new version with every grant and release. The version stays on
//!   its page, since half of each page is left free, and needs no new index entries.
//! - **The row of a new semaphore** is inserted before, in a separate transaction, and counts as
//!   deleted until the batch defines it.
//!
//! This folder has the SQL: `load` and `save` write the two packets, `read` and `due` find rows,
//! `purge` deletes old rows, `recount` verifies, `notifier` notifies, `schema` migrates, `sql` writes
//! literals, `columns` writes rows, and `error` knows the codes. The code that runs the SQL is in `crate::sql`, which the
//! stores on servers share.

mod columns;
mod driver;
mod due;
mod error;
mod load;
mod notifier;
#[cfg(test)]
mod plans;
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

use crate::sql::{ByKey, Dialect, Hosts, Lease, Look, RowIds, Script, Sql, values};
use crate::walk::Stretch;
pub(crate) use driver::PostgresServer;
use notifier::Notifier;
use sql::{Text, Time};

/// Keeps permits in a PostgreSQL database (14 or newer, in UTF-8).
///
/// - **Clock**: the server's.
/// - **Fairness, cancellation, time**: those of [`Sql`].
/// - **Rights**: SELECT, INSERT, UPDATE and DELETE on the tables; for
///   [`migrate`](lockhouse_core::store::Migration::migrate) also CREATE on the schema that comes first
///   in the user's `search_path`, where the tables are made.
/// - **PgBouncer** must pool by session, as each session is set when it begins; another mode is
///   refused when the store first connects.
///
/// ```
/// use lockhouse_stores::Postgres;
///
/// let store = Postgres::open("postgres://app:secret@db/lockhouse?connections=8&sslmode=require")?;
/// # Ok::<(), lockhouse_core::store::Error>(())
/// ```
pub type Postgres = Sql<PostgresServer>;

impl Postgres {
    /// A store in the database of `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, or
    /// `postgresql://…`, which is the same. For a primary and its standbys, write `HOST:PORT` of each, with commas
    /// between them: the store connects to the one that takes writes, and to no other.
    ///
    /// It does not connect yet. The database must exist;
    /// [`migrate`](lockhouse_core::store::Migration::migrate) creates the tables in it. A HOST that
    /// is a path, with `%2F` for each `/`, is the folder of a Unix socket. Without a password, that
    /// of `PGPASSWORD` or of the password file is taken. Parameters of the URL:
    ///
    /// | parameter | default | |
    /// |---|---|---|
    /// | `connections` | 16 | the most connections to have at once |
    /// | `sslmode` | `prefer` | `disable`, `prefer`, `require`, `verify-ca`, `verify-full` |
    /// | `sslrootcert`, `sslcert`, `sslkey` | | PEM files: whom to trust, and who we are. With `sslrootcert` the default of `sslmode` is `verify-full`, and a mode that verifies nothing is refused. `verify-ca` needs `sslrootcert` and does not check the host name, where the program patches sqlx-core as Lockhouse's own programs do (ADR 1) |
    /// | `application_name` | `lockhouse` | what the server calls the sessions |
    ///
    /// Where the URL is silent, `PGPORT`, `PGSSLMODE`, `PGSSLROOTCERT`, `PGSSLCERT`, `PGSSLKEY` and `PGAPPNAME` of the environment
    /// count, by the same rules.
    ///
    /// # Errors
    /// [`Kind::Configuration`](lockhouse_core::store::Kind::Configuration) if the URL is malformed,
    /// names no database, or has a parameter that is unknown.
    pub fn open(url: &str) -> Result<Self, Error> {
        url::parse(url).map(Self::at)
    }
}

/// The driver's options from a URL of PostgreSQL's and the environment, by the same rules about certificates as the
/// store's. For checks of owners.
///
/// # Errors
/// [`Kind::Configuration`](lockhouse_core::store::Kind::Configuration) when the URL is malformed, or its parameters
/// contradict each other. It shows nothing of the URL.
#[doc(hidden)]
pub fn postgres_options(url: &str) -> Result<sqlx::postgres::PgConnectOptions, Error> {
    url::options(&crate::sql::parsed(url)?)
}

impl Dialect for PostgresServer {
    type Notifier = Notifier;

    const BEGIN: &'static str = sql::BEGIN;
    const BY_KEY: [ByKey; 3] = load::BY_KEY;
    const SELECT_TO_LOCK: &'static str = "SELECT";
    const BY_TEMPLATE: [&'static str; 2] = ["lockhouse_semaphore s", "lockhouse_semaphore s"];
    const NONE_EXIST: &'static str = sql::NONE_EXIST;
    const CLOCK: &'static str = sql::CLOCK;
    const NOW: &'static str = "clock_timestamp()";
    const SCHEMA: u32 = schema::VERSION;
    const HAS_SCHEMA: &'static str = schema::HAS_SCHEMA;
    const NOTED: &'static str = "";

    fn text(text: &str) -> impl Display + '_ {
        Text(text)
    }

    fn time(time: Timestamp) -> impl Display {
        Time(time)
    }

    fn says_some_exist(error: &dyn DatabaseError) -> bool {
        error::is_division_by_zero(&error::code(error))
    }

    fn permits(ids: &[u64]) -> Script {
        load::permits(ids)
    }

    fn save(script: Script, changes: &Changes, rows: &RowIds) -> Result<Script, Error> {
        save::script(script, changes, rows)
    }

    fn noted(_: u64, value: u64) -> impl Display {
        value
    }

    fn with_permits(chosen: &str) -> Script {
        read::with_permits(chosen)
    }

    fn insert_missing(rows: &[SemaphoreRow]) -> Script {
        Script::of(format_args!(
            "INSERT INTO lockhouse_semaphore \
             (name,capacity,in_use,fence,created_at,updated_at,deleted_at) VALUES {} \
             ON CONFLICT (name) DO NOTHING",
            values::new_semaphores::<Self>(rows)
        ))
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
             ON CONFLICT (semaphore,process) DO UPDATE SET waiters=EXCLUDED.waiters,written_at=EXCLUDED.written_at"
        )
    }

    fn add_token(row: &str) -> String {
        format!(
            "INSERT INTO lockhouse_token \
             (name,digest,grants,created_at,expires_at,revoked_at) VALUES {row} \
             ON CONFLICT (name) DO NOTHING"
        )
    }

    fn holding(owners: &str) -> String {
        format!(
            "SELECT DISTINCT r.owner FROM lockhouse_permit_request r \
             WHERE r.state='ACQUIRED' AND r.owner IN ({owners})"
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

    fn notifier(hosts: &Arc<Hosts<Self>>) -> Notifier {
        Notifier::new(hosts)
    }

    async fn changed(
        notifier: &Notifier,
        on: &BTreeSet<SemaphoreName>,
        process: ProcessId,
    ) -> BTreeSet<SemaphoreName> {
        notifier.changed(on, process).await
    }

    async fn migrate(lease: &mut Lease<Self>, found: u32) -> Result<(), Error> {
        schema::migrate(lease, found).await
    }
}
