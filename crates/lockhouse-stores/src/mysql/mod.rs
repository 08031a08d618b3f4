//! A store in MySQL or MariaDB, for any number of processes on any number of machines.
//!
//! A batch is two round trips:
//!
//! ```text
//! START TRANSACTION                           INSERT requests, permits
//! SELECT semaphores … FOR UPDATE              UPDATE semaphores
//! SELECT requests … FOR UPDATE     decide     UPDATE renewed, ended
//! SELECT permits                      ▶       INSERT or DELETE sessions
//! SELECT sessions … FOR UPDATE                COMMIT
//! SELECT the clock
//! ```
//!
//! - **Locks** are row locks, taken in byte order: semaphores, then requests, then
//!   owners' sessions. Batches on different
//!   semaphores do not wait for each other, and no order of names deadlocks.
//! - **Every grant and release writes the semaphore's row**. On a cluster with several writers row
//!   locks are local to a node, and two that wrote the same row is what makes one of them fail.
//! - **READ COMMITTED**: what is read after a lock wait is what was committed meanwhile, and gaps
//!   are not locked.
//! - **The clock** is `SYSDATE(6)`, evaluated once the locks are held.
//! - **The row of a new semaphore** is made ready before, in a transaction of its own, and looks
//!   deleted until the batch defines it.
//! - **Errors**: an error of the server before the COMMIT means that nothing was applied. A
//!   connection that breaks once the second packet was sent leaves that unknown.
//!
//! `due` finds what may be ended, `purge` deletes what has been, `recount` counts anew.
//! `sql` makes literals, `load` and `save` make the two packets, `rows` reads rows, `pool` and
//! `connection` run scripts, `error` knows the codes.

mod connection;
mod due;
mod error;
mod ids;
mod load;
#[cfg(test)]
mod plans;
mod pool;
mod purge;
mod read;
mod recount;
mod rows;
mod save;
mod schema;
mod sql;
mod transact;
mod url;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use lockhouse_core::store::{Batch, Due, Error, Kind, Page, Purge, Store};
use lockhouse_core::{
    CapacityChange, ExternalId, Outcome, Owner, Recount, Request, Semaphore, SemaphoreName,
};

use ids::Ids;
use pool::Pool;

/// Keeps permits in a MySQL (8.0.17 or newer) or MariaDB (10.6 or newer) database.
///
/// - **Clock**: the server's.
/// - **Fairness**: batches that wait for the same semaphore are served in the order in which the
///   server queues its row locks.
/// - **Cancellation**: a call runs in a task of its own, so one whose future is dropped still runs
///   to its end.
/// - **Time**: every call ends within 10 s; a lock wait within 5 s, as a conflict. Only
///   [`migrate`](Store::migrate), [`recount`](Store::recount) and [`repair`](Store::repair), which
///   read whole tables, may take 10 min; batches go on meanwhile.
/// - **Rights**: SELECT, INSERT, UPDATE and DELETE on the database; for `migrate` also CREATE,
///   ALTER and INDEX.
///
/// ```
/// use lockhouse_stores::MySql;
///
/// let store = MySql::open("mysql://app:secret@db/lockhouse?connections=8&ssl-mode=required")?;
/// # Ok::<(), lockhouse_core::store::Error>(())
/// ```
#[derive(Clone)]
pub struct MySql(Arc<Inner>);

struct Inner {
    pool: Arc<Pool>,
    ids: Ids,
    /// Whether to lock what is loaded. Only tests say no.
    locks: bool,
}

impl MySql {
    /// A store in the database of `mysql://USER:PASSWORD@HOST:PORT/DATABASE`, or `mariadb://…`,
    /// which is the same.
    ///
    /// Nothing is connected to yet. The database must exist; [`migrate`](Store::migrate) makes the
    /// tables in it. Parameters of the URL:
    ///
    /// | parameter | default | |
    /// |---|---|---|
    /// | `connections` | 16 | the most connections to have at once |
    /// | `ssl-mode` | `preferred` | `disabled`, `preferred`, `required`, `verify_ca`, `verify_identity` |
    /// | `ssl-ca`, `ssl-cert`, `ssl-key` | | PEM files: whom to trust, and who we are |
    /// | `socket` | | a Unix socket to connect to instead of HOST |
    ///
    /// # Errors
    /// [`Kind::Configuration`] when the URL is malformed, names no database, or has a parameter
    /// that is unknown.
    pub fn open(url: &str) -> Result<Self, Error> {
        let location = url::parse(url)?;
        Ok(Self(Arc::new(Inner {
            locks: location.locks,
            ids: Ids::new(),
            pool: Arc::new(Pool::new(location)),
        })))
    }

    /// Runs `call` in a task of its own, which goes on when the caller goes away, so that nothing
    /// is cut in two. `lost` is the kind of the error if the task dies.
    async fn in_own_task<T, F>(
        &self,
        lost: Kind,
        call: impl FnOnce(Arc<Inner>) -> F,
    ) -> Result<T, Error>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let task = tokio::spawn(call(Arc::clone(&self.0)));
        task.await.unwrap_or_else(|died| {
            Err(Error::new(lost, "a call to the store died").caused_by(died))
        })
    }
}

impl fmt::Debug for MySql {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MySql")
            .field(&self.0.pool.display())
            .finish()
    }
}

#[async_trait]
impl Store for MySql {
    async fn transact(&self, batch: &Batch) -> Result<Vec<Outcome>, Error> {
        let batch = batch.clone();
        self.in_own_task(Kind::Unknown, |store| async move {
            transact::transact(&store, &batch).await
        })
        .await
    }

    async fn semaphore(&self, name: &SemaphoreName) -> Result<Option<Semaphore>, Error> {
        let name = name.clone();
        self.in_own_task(Kind::Unavailable, |store| async move {
            read::semaphore(&store, &name).await
        })
        .await
    }

    async fn semaphores(&self, page: &Page<SemaphoreName>) -> Result<Vec<Semaphore>, Error> {
        let page = page.clone();
        self.in_own_task(Kind::Unavailable, |store| async move {
            read::semaphores(&store, &page).await
        })
        .await
    }

    async fn named(&self, names: &[SemaphoreName]) -> Result<Vec<Semaphore>, Error> {
        let names = names.to_vec();
        self.in_own_task(Kind::Unavailable, |store| async move {
            read::named(&store, &names).await
        })
        .await
    }

    async fn request(&self, external_id: &ExternalId) -> Result<Option<Request>, Error> {
        let external_id = external_id.clone();
        self.in_own_task(Kind::Unavailable, |store| async move {
            read::request(&store, &external_id).await
        })
        .await
    }

    async fn holders(
        &self,
        on: Option<&SemaphoreName>,
        page: &Page<ExternalId>,
    ) -> Result<Vec<Request>, Error> {
        let (on, page) = (on.cloned(), page.clone());
        self.in_own_task(Kind::Unavailable, |store| async move {
            read::holders(&store, on.as_ref(), &page).await
        })
        .await
    }

    async fn history(
        &self,
        name: &SemaphoreName,
        limit: u32,
    ) -> Result<Vec<CapacityChange>, Error> {
        let name = name.clone();
        self.in_own_task(Kind::Unavailable, move |store| async move {
            read::history(&store, &name, limit).await
        })
        .await
    }

    async fn due(&self, which: Due<'_>, limit: u32) -> Result<Vec<Request>, Error> {
        let wanted = which.into();
        self.in_own_task(Kind::Unavailable, move |store| async move {
            due::due(&store, &wanted, limit).await
        })
        .await
    }

    async fn owners(&self, page: &Page<Owner>) -> Result<Vec<Owner>, Error> {
        let page = page.clone();
        self.in_own_task(Kind::Unavailable, |store| async move {
            due::owners(&store, &page).await
        })
        .await
    }

    async fn purge(&self, what: Purge, limit: u32) -> Result<u64, Error> {
        self.in_own_task(Kind::Unknown, move |store| async move {
            purge::purge(&store, what, limit).await
        })
        .await
    }

    async fn recount(&self) -> Result<Recount, Error> {
        self.in_own_task(Kind::Unavailable, |store| async move {
            recount::recount(&store).await
        })
        .await
    }

    async fn repair(&self, name: &SemaphoreName) -> Result<Option<Semaphore>, Error> {
        let name = name.clone();
        self.in_own_task(Kind::Unknown, |store| async move {
            recount::repair(&store, &name).await
        })
        .await
    }

    async fn migrate(&self) -> Result<(), Error> {
        self.in_own_task(Kind::Unavailable, |store| async move {
            schema::migrate(&store).await
        })
        .await
    }

    async fn ready(&self) -> Result<(), Error> {
        self.in_own_task(Kind::Unavailable, |store| async move {
            schema::ready(&store).await
        })
        .await
    }
}
