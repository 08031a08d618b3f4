//! The connections to the file: one writer and a few readers, so that reads wait for no write.
//!
//! A call waits for its turn without a thread, first come, first served. Then it runs to its end on
//! a blocking thread, even if its caller has gone away. A connection that saw an error is closed,
//! which rolls back its transaction. If the file could not be accessed, all other connections are
//! closed too.

use std::mem;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lockhouse_core::store::{self, Error, Kind};
use rusqlite::{Connection, Transaction};
use tokio::task;
use tokio::time::timeout_at;

use super::connection::{Access, begin_read, begin_write, open};
use super::schema;
use crate::bulkhead::Bulkhead;

/// How long a call waits for its turn and the file's lock together: 5 s less what a sleep oversleeps.
const LOCK_WAIT: Duration = Duration::from_millis(4_500);

/// How long a call may take in all before its caller gets the error that the disk does not answer.
const CALL_LIMIT: Duration = Duration::from_millis(9_500);

/// The same for calls that go over all rows.
const LONG_CALL_LIMIT: Duration = Duration::from_secs(600);

const READERS: usize = 4;

#[derive(Debug)]
pub(super) struct Connections {
    file: Arc<Path>,
    pub(super) lock_wait: Duration,
    writer: Pool,
    readers: Pool,
    /// How often the file could not be accessed.
    troubles: Arc<AtomicU64>,
    /// How many connections were opened.
    opened: Arc<AtomicU64>,
}

#[derive(Debug)]
struct Pool {
    bulkhead: Bulkhead,
    /// Never more than the bulkhead admits.
    idle: Arc<Mutex<Idle>>,
}

impl Connections {
    /// It opens no connection yet.
    pub(super) fn new(file: &Path) -> Self {
        Self {
            file: file.into(),
            lock_wait: LOCK_WAIT,
            writer: Pool::new(1),
            readers: Pool::new(READERS),
            troubles: Arc::default(),
            opened: Arc::default(),
        }
    }

    /// Those of the writer and of the readers together.
    pub(super) fn state(&self) -> store::Connections {
        let of = |pool: &Pool| store::Connections {
            most: pool.bulkhead.most(),
            busy: pool.bulkhead.taken(),
            idle: lock(&pool.idle).len(),
            opened: 0,
            queued: pool.bulkhead.queued(),
        };
        let (writer, readers) = (of(&self.writer), of(&self.readers));
        store::Connections {
            most: writer.most + readers.most,
            busy: writer.busy + readers.busy,
            idle: writer.idle + readers.idle,
            opened: self.opened.load(SeqCst),
            queued: writer.queued + readers.queued,
        }
    }

    /// Runs `work` in a transaction that holds the write lock, after checking the schema. Unless
    /// `work` commits, nothing is written.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(Transaction<'_>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let job = self.job(&self.writer, Access::Write, work);
        self.admitted(&self.writer, CALL_LIMIT, Kind::Unknown, job)
            .await
    }

    /// The same for work that goes over all rows.
    pub(super) async fn write_long<T: Send + 'static>(
        &self,
        work: impl FnOnce(Transaction<'_>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let job = self.job(&self.writer, Access::Write, work);
        self.admitted(&self.writer, LONG_CALL_LIMIT, Kind::Unknown, job)
            .await
    }

    /// Runs `work` on one snapshot of the committed rows, after checking the schema.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let work = |snapshot: Transaction<'_>| work(&snapshot);
        let job = self.job(&self.readers, Access::Read, work);
        self.admitted(&self.readers, CALL_LIMIT, Kind::Unavailable, job)
            .await
    }

    /// The same for work that goes over all rows.
    pub(super) async fn read_long<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let work = |snapshot: Transaction<'_>| work(&snapshot);
        let job = self.job(&self.readers, Access::Read, work);
        self.admitted(&self.readers, LONG_CALL_LIMIT, Kind::Unavailable, job)
            .await
    }

    /// Migrates the schema, in the writer's turn.
    pub(super) async fn migrate(&self) -> Result<(), Error> {
        let file = Arc::clone(&self.file);
        let job = move |deadline| schema::migrate(&file, deadline);
        self.admitted(&self.writer, LONG_CALL_LIMIT, Kind::Unknown, job)
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
        let count = Arc::clone(&self.opened);
        move |deadline| {
            let troubles_before = troubles.load(SeqCst);
            let taken = lock(&idle).pop();
            // If the file was removed or replaced, do not go on granting on the old one.
            let is = identity(&file);
            let opened = match taken {
                Some((connection, was)) if was == is => Ok(connection),
                _ => {
                    count.fetch_add(1, SeqCst);
                    open(&file, access, deadline)
                }
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
            // While a connection is open that was opened when the file was not writable, SQLite
            // can't write on any connection of the process.
            if matches!(&result, Err(error) if error.kind() == Kind::Unavailable) {
                troubles.fetch_add(1, SeqCst);
                let closed = all.map(|idle| mem::take(&mut *lock(&idle)));
                drop(closed);
            }
            result
        }
    }

    /// Runs `job` once the bulkhead admits it, with the deadline for its lock. `cut` is the kind of
    /// the error if the job does not return within `limit`.
    async fn admitted<T: Send + 'static>(
        &self,
        pool: &Pool,
        limit: Duration,
        cut: Kind,
        job: impl FnOnce(Instant) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let begun = Instant::now();
        let deadline = begun + self.lock_wait;
        let Some(admitted) = pool.bulkhead.admit(deadline.into()).await else {
            let problem = "other calls of this process kept SQLite busy for too long; try again";
            return Err(Error::new(Kind::Conflict, problem));
        };
        let running = task::spawn_blocking(move || {
            let _admitted = admitted;
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
    fn new(most: usize) -> Self {
        Self {
            bulkhead: Bulkhead::new(most),
            idle: Arc::default(),
        }
    }
}

fn lock(idle: &Mutex<Idle>) -> MutexGuard<'_, Idle> {
    idle.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Connections, and the file that each was opened on.
type Idle = Vec<(Connection, Option<Identity>)>;

/// The identity of a file, whatever its name.
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
