//! The connections to the file: one that writes, a few that read, so that reads wait for no write.
//!
//! A call waits for its turn without a thread, first come, first served. Then it runs to its end
//! on a thread that may block, whether or not its caller is still there. A connection that saw an
//! error is closed: what it was in the middle of is rolled back with it. Where the file could not be
//! had, so are all others.

use std::mem;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use lockhouse_core::store::{Error, Kind, PoolUse};
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};
use tokio::sync::Semaphore;
use tokio::task;
use tokio::time::timeout_at;

use super::error::{self, cannot};
use super::schema;

/// How long a call waits for its turn and the file's lock together: 5 s less what a sleep oversleeps.
const LOCK_WAIT: Duration = Duration::from_millis(4_500);

/// How long a call takes altogether before its caller is told that the disk does not answer.
const CALL_LIMIT: Duration = Duration::from_millis(9_500);

/// The same for what goes over all rows.
const LONG_CALL_LIMIT: Duration = Duration::from_secs(600);

/// How often a writer looks whether the lock is free. SQLite's own busy handler soon looks only
/// every 100 ms, and misses the short gaps that a busy process leaves: with three at work, the
/// slowest call took 1.9 s with it and 65 ms with this.
pub(super) const POLL: Duration = Duration::from_millis(1);

/// How often it looks so soon. Where hundreds of processes write, that alone would keep the machine busy, and the
/// one that has the lock would not get on: of 300 at once on two cores, 26 were served in 200 s. So the pause then
/// grows by a fifth with each look, up to a bound, and is drawn, so that no two look in step.
const SOON: u32 = 8;
const LONGEST_POLL: Duration = Duration::from_millis(50);

const READERS: usize = 4;

/// More than there are statements, so that none is prepared twice.
const PREPARED_STATEMENTS: usize = 64;

/// Durable when committed, on a Mac too; the rest of the settings are the file's.
const SETTINGS: &str = "PRAGMA synchronous = FULL; PRAGMA fullfsync = ON; PRAGMA foreign_keys = ON";

/// What a connection is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
    /// Write, and the file may be missing.
    Create,
}

#[derive(Debug)]
pub(super) struct Connections {
    file: Arc<Path>,
    pub(super) lock_wait: Duration,
    writer: Pool,
    readers: Pool,
    /// How often there was trouble with the file.
    troubles: Arc<AtomicU64>,
}

#[derive(Debug)]
struct Pool {
    turns: Arc<Semaphore>,
    /// Never more than there are turns.
    idle: Arc<Mutex<Idle>>,
}

impl Connections {
    /// None is opened before it is needed.
    pub(super) fn new(file: &Path) -> Self {
        Self {
            file: file.into(),
            lock_wait: LOCK_WAIT,
            writer: Pool::new(1),
            readers: Pool::new(READERS),
            troubles: Arc::default(),
        }
    }

    /// The connections to the file, now.
    pub(super) fn in_use(&self) -> PoolUse {
        let pools = [(&self.writer, 1), (&self.readers, READERS)];
        let mut all = PoolUse::default();
        for (pool, most) in pools {
            all.most += most;
            all.in_use += most - pool.turns.available_permits();
            all.idle += lock(&pool.idle).len();
        }
        all
    }

    /// Runs `work` in a transaction that holds the write lock, on a schema that was checked.
    /// Unless it commits, nothing is written.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(Transaction<'_>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let job = self.job(&self.writer, Access::Write, work);
        self.in_turn(&self.writer, CALL_LIMIT, Kind::Unknown, job)
            .await
    }

    /// The same for work that goes over all rows.
    pub(super) async fn write_long<T: Send + 'static>(
        &self,
        work: impl FnOnce(Transaction<'_>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let job = self.job(&self.writer, Access::Write, work);
        self.in_turn(&self.writer, LONG_CALL_LIMIT, Kind::Unknown, job)
            .await
    }

    /// Runs `work` on one snapshot of what is committed, on a schema that was checked.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let work = |snapshot: Transaction<'_>| work(&snapshot);
        let job = self.job(&self.readers, Access::Read, work);
        self.in_turn(&self.readers, CALL_LIMIT, Kind::Unavailable, job)
            .await
    }

    /// The same for work that goes over all rows.
    pub(super) async fn read_long<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let work = |snapshot: Transaction<'_>| work(&snapshot);
        let job = self.job(&self.readers, Access::Read, work);
        self.in_turn(&self.readers, LONG_CALL_LIMIT, Kind::Unavailable, job)
            .await
    }

    /// Brings the schema up to date, in the writer's turn.
    pub(super) async fn migrate(&self) -> Result<(), Error> {
        let file = Arc::clone(&self.file);
        let job = move |deadline| schema::migrate(&file, deadline);
        self.in_turn(&self.writer, LONG_CALL_LIMIT, Kind::Unknown, job)
            .await
    }

    fn job<T>(
        &self,
        pool: &Pool,
        access: Access,
        work: impl FnOnce(Transaction<'_>) -> Result<T, Error> + Send + 'static,
    ) -> impl FnOnce(Instant) -> Result<T, Error> + Send + 'static {
        let file = Arc::clone(&self.file);
        let idle = Arc::clone(&pool.idle);
        let all = [&self.writer, &self.readers].map(|pool| Arc::clone(&pool.idle));
        let troubles = Arc::clone(&self.troubles);
        move |deadline| {
            let troubles_before = troubles.load(SeqCst);
            let taken = lock(&idle).pop();
            // Whoever removes or replaces the file must not leave us granting on the old one.
            let is = identity(&file);
            let opened = match taken {
                Some((connection, was)) if was == is => Ok(connection),
                _ => open(&file, access, deadline),
            };
            let result = opened.and_then(|connection| {
                let begun = match access {
                    Access::Read => begin_read(&connection, deadline),
                    Access::Write | Access::Create => begin_write(&connection, deadline),
                };
                let result = begun.and_then(|transaction| {
                    schema::check(&transaction)?;
                    work(transaction)
                });
                let is_well = result.is_ok() && connection.is_autocommit();
                if is_well && matches!(connection.is_readonly("main"), Ok(false)) {
                    let mut idle = lock(&idle);
                    if troubles.load(SeqCst) == troubles_before {
                        idle.push((connection, is));
                    }
                }
                result
            });
            // What was opened while nothing could be written keeps SQLite from writing, by all
            // connections of the process, for as long as it is open.
            if matches!(&result, Err(error) if error.kind() == Kind::Unavailable) {
                troubles.fetch_add(1, SeqCst);
                let closed = all.map(|idle| mem::take(&mut *lock(&idle)));
                drop(closed);
            }
            result
        }
    }

    /// Waits for a turn and runs `job` in it, with the time by which it must have its lock.
    /// `cut` is what it means when the job does not come back within `limit`.
    async fn in_turn<T: Send + 'static>(
        &self,
        pool: &Pool,
        limit: Duration,
        cut: Kind,
        job: impl FnOnce(Instant) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let begun = Instant::now();
        let deadline = begun + self.lock_wait;
        let turn = Arc::clone(&pool.turns).acquire_owned();
        let Ok(Ok(turn)) = timeout_at(deadline.into(), turn).await else {
            let problem = "other calls of this process kept SQLite busy for too long; try again";
            return Err(Error::new(Kind::Conflict, problem));
        };
        let running = task::spawn_blocking(move || {
            let _turn = turn;
            job(deadline)
        });
        match timeout_at((begun + limit).into(), running).await {
            Ok(Ok(result)) => result,
            Ok(Err(lost)) if lost.is_panic() => {
                let problem = "a defect stopped a call on SQLite; nothing was applied";
                Err(Error::new(Kind::Rejected, problem).caused_by(lost))
            }
            Ok(Err(lost)) => {
                Err(Error::new(Kind::Unavailable, "the process is ending").caused_by(lost))
            }
            Err(_) => {
                let problem = "the disk under SQLite did not answer in time; try again";
                Err(Error::new(cut, problem))
            }
        }
    }
}

impl Pool {
    fn new(turns: usize) -> Self {
        Self {
            turns: Arc::new(Semaphore::new(turns)),
            idle: Arc::default(),
        }
    }
}

fn lock(idle: &Mutex<Idle>) -> MutexGuard<'_, Idle> {
    idle.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Connections, and the file that each was opened on.
type Idle = Vec<(Connection, Option<Identity>)>;

/// Which file it is, whatever its name.
type Identity = (u64, u64);

#[cfg(unix)]
fn identity(file: &Path) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt;

    let metadata = file.metadata().ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// Elsewhere an open file can't be removed.
#[cfg(not(unix))]
fn identity(_file: &Path) -> Option<Identity> {
    None
}

/// A connection with its settings made.
pub(super) fn open(file: &Path, access: Access, deadline: Instant) -> Result<Connection, Error> {
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if access == Access::Create {
        flags |= OpenFlags::SQLITE_OPEN_CREATE;
    } else if let Ok(false) = file.try_exists() {
        return Err(schema::missing(file));
    }
    let set_up = |connection: &Connection| {
        connection.busy_timeout(left(deadline))?;
        connection.set_prepared_statement_cache_capacity(PREPARED_STATEMENTS);
        connection.execute_batch(SETTINGS)?;
        connection.pragma_update(None, "query_only", access == Access::Read)
    };
    Connection::open_with_flags(file, flags)
        .and_then(|connection| set_up(&connection).map(|()| connection))
        .map_err(cannot("open the file"))
}

/// A transaction that has the write lock: nobody else can change anything until it ends.
pub(super) fn begin_write(
    connection: &Connection,
    deadline: Instant,
) -> Result<Transaction<'_>, Error> {
    connection
        .busy_timeout(Duration::ZERO)
        .map_err(cannot("set a busy timeout"))?;
    let mut looks = 0;
    let mut longest = POLL;
    loop {
        match Transaction::new_unchecked(connection, TransactionBehavior::Immediate) {
            Err(error) if error::is_busy(&error) && Instant::now() < deadline => {
                looks += 1;
                if looks > SOON {
                    longest = longest.mul_f64(1.2).min(LONGEST_POLL);
                }
                thread::sleep(POLL + (longest - POLL).mul_f64(fastrand::f64()));
            }
            begun => return begun.map_err(cannot("begin a transaction")),
        }
    }
}

fn begin_read(connection: &Connection, deadline: Instant) -> Result<Transaction<'_>, Error> {
    connection
        .busy_timeout(left(deadline))
        .and_then(|()| Transaction::new_unchecked(connection, TransactionBehavior::Deferred))
        .map_err(cannot("begin to read"))
}

fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}
