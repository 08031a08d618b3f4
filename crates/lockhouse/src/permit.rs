//! [`Permit`]: a hold that renews itself.

use std::future::pending;
use std::sync::{Arc, mpsc};

use lockhouse_core::{ExternalId, Grant, Owner, Request};
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::background::{Dropped, UnderWay};
use crate::caller::{self, SqlDialect, SqlTransaction};
use crate::holding::{Holding, Renewable};
use crate::{Error, Lockhouse, Lost, Released, who};

/// The permits that one request holds. They are renewed in the background, and given back by
/// [`release`](Permit::release) or on drop.
///
/// Unlike `tokio::sync::SemaphorePermit` it borrows nothing, so it can be moved anywhere, and it can be
/// [lost](Permit::lost): the store ends a hold that is not renewed, since it cannot tell a slow holder from a dead one.
///
/// Dropping a permit gives it back in the background, on the runtime on which it was acquired. A later
/// [`try_acquire`](crate::Semaphore::try_acquire) of the same client or of a clone waits for that, for at most 0.4 s.
/// [`Lockhouse::close`] waits too; call it before the runtime ends, since nothing is given back after that.
///
/// If the store does not answer, the library retries the release of a permit with a fresh id until the store answers. A
/// dropped permit with a caller-chosen id stays held, so that a retry with that id finds it, until its TTL or its session
/// ends it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lockhouse::Permit;
///
/// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
/// lockhouse.define("backup-slots", 10).await?;
/// let permit: Permit = lockhouse.semaphore("backup-slots").acquire().await?;
/// tokio::select! {
///     lost = permit.lost() => return Err(format!("stopped: {lost}").into()),
///     () = back_up(permit.fence("backup-slots")) => {}
/// }
/// assert!(permit.release().await?.now);
/// # async fn back_up(_fence: u64) {}
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "dropping a permit gives it back"]
pub struct Permit {
    lockhouse: Lockhouse,
    request: Request,
    /// Renews the request. `None` if it has no TTL.
    own: Option<Holding>,
    /// The session that keeps the request, if one does.
    session: Option<Arc<Holding>>,
    runtime: Handle,
    /// Whether the library generated the id.
    is_anonymous: bool,
    held: bool,
    /// Set once its release begins. Later asks of this client that do not wait come after the release.
    under_way: Option<UnderWay>,
}

impl Permit {
    /// The hold of `request`, whose ask was sent at `sent_at`; `session` keeps it too, if there is
    /// one. If it `is_anonymous`, the library generated the id.
    pub(crate) fn new(
        lockhouse: Lockhouse,
        request: Request,
        sent_at: Instant,
        session: Option<Arc<Holding>>,
        is_anonymous: bool,
    ) -> Self {
        let held = Renewable::Request {
            external_id: request.external_id.clone(),
            by: request.is_reserved().then(Owner::lockhouse),
        };
        let own = request
            .ttl
            .map(|ttl| Holding::new(&lockhouse, held, ttl, sent_at));
        Self {
            lockhouse,
            request,
            own,
            session,
            runtime: Handle::current(),
            is_anonymous,
            held: true,
            under_way: None,
        }
    }

    /// The request's id.
    pub fn external_id(&self) -> &ExternalId {
        &self.request.external_id
    }

    /// The request as it was granted.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// The fence on `semaphore`: a fencing token that rises with every grant (P7). Send it along with each write, and let
    /// the resource refuse a lower one than it has seen.
    ///
    /// # Panics
    /// If the request was not for `semaphore`. [`fences`](Permit::fences) never panics.
    #[track_caller]
    pub fn fence(&self, semaphore: &str) -> u64 {
        self.held(semaphore).fence
    }

    /// The fence on each semaphore, in byte order of the names.
    pub fn fences(&self) -> impl Iterator<Item = (&str, u64)> {
        self.request
            .permits
            .iter()
            .map(|permit| (permit.semaphore.as_str(), permit.fence))
    }

    /// The slots on `semaphore`, lowest first: as many as the count, and no other live permit holds them. Empty if the
    /// semaphore is not slotted.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockhouse::Error> {
    /// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
    /// lockhouse.define("gpu", 4).slots().await?;
    /// let one = lockhouse.semaphore("gpu").acquire().await?;
    /// let two = lockhouse.semaphore("gpu").acquire_many(2).await?;
    /// assert_eq!(one.slots("gpu"), [0]);
    /// assert_eq!(two.slots("gpu"), [1, 2]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    /// If the request was not for `semaphore`.
    #[track_caller]
    pub fn slots(&self, semaphore: &str) -> Vec<u32> {
        let slots = self.held(semaphore).slots.as_ref();
        slots.map_or_else(Vec::new, |slots| slots.iter().collect())
    }

    #[track_caller]
    fn held(&self, semaphore: &str) -> &Grant {
        let mut permits = self.request.permits.iter();
        match permits.find(|permit| permit.semaphore.as_str() == semaphore) {
            Some(permit) => permit,
            None => panic!(
                "request {} holds nothing of {semaphore:?}",
                self.request.external_id
            ),
        }
    }

    /// How many permits the request holds on all its semaphores together.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockhouse::Error> {
    /// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
    /// lockhouse.define("backup-slots", 10).await?;
    /// let permit = lockhouse.semaphore("backup-slots").acquire_many(3).await?;
    /// assert_eq!(permit.num_permits(), 3);
    /// # Ok(())
    /// # }
    /// ```
    pub fn num_permits(&self) -> u64 {
        let counts = self
            .request
            .permits
            .iter()
            .map(|permit| permit.count.value());
        counts.map(u64::from).sum()
    }

    /// Resolves when the hold is lost: somebody ended it, or it could not be renewed in time. Stop the work then.
    ///
    /// It resolves a tenth of the TTL before the store could grant the permits to another caller, also when the network
    /// is cut. After a pause of this process, the first call to `lost` or [`is_lost`](Permit::is_lost) tells. A process
    /// that is paused between that call and a write needs a [fence](Permit::fence).
    ///
    /// A hold without a TTL and without a session is never reported as lost. A hold of a session is lost with the
    /// session; if it alone is ended, by force, that is not reported.
    ///
    /// The clock is the system's monotonic clock. On Linux it stops while the machine is suspended, so a hold may seem
    /// valid after a suspension until its next renewal.
    pub async fn lost(&self) -> Lost {
        let of = async |holding: Option<&Holding>| match holding {
            Some(holding) => holding.lost().await,
            None => pending().await,
        };
        tokio::select! {
            lost = of(self.own.as_ref()) => lost,
            lost = of(self.session.as_deref()) => lost,
        }
    }

    /// Until when the hold is certain, by this process's monotonic clock: a tenth of the TTL before the store could end
    /// it. Every renewal moves it on. Without a renewal, [`lost`](Permit::lost) resolves at that time. `None` if the hold
    /// has neither a TTL nor a session.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockhouse::Error> {
    /// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
    /// # lockhouse.define("backup-slots", 10).await?;
    /// let permit = lockhouse.semaphore("backup-slots").acquire().await?;
    /// let left = permit.held_until().map(|until| until - std::time::Instant::now());
    /// assert!(left > Some(std::time::Duration::from_secs(20)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn held_until(&self) -> Option<std::time::Instant> {
        let until = self.holdings().map(Holding::held_until).min();
        until.map(Instant::into_std)
    }

    /// Whether the hold is lost now; see [`lost`](Permit::lost). Once true, it stays true.
    pub fn is_lost(&self) -> bool {
        self.holdings().any(|holding| holding.is_lost().is_some())
    }

    fn holdings(&self) -> impl Iterator<Item = &Holding> {
        self.own.iter().chain(self.session.as_deref())
    }

    /// The statement that fails unless the request is held, and keeps anybody from ending it until the caller's
    /// transaction ends; see [`caller`]. Its parameter is [`external_id`](Permit::external_id).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockhouse::Error> {
    /// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
    /// # lockhouse.define("backup-slots", 10).await?;
    /// use lockhouse::caller::SqlDialect;
    ///
    /// let permit = lockhouse.semaphore("backup-slots").acquire().await?;
    /// let sql = permit.held_sql(SqlDialect::Postgres);
    /// assert!(sql.contains("external_id = $1"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn held_sql(&self, dialect: SqlDialect) -> &'static str {
        caller::held_sql(dialect)
    }

    /// The statement that finishes the request: its permits return with the commit of the caller's transaction, not
    /// before and not without it; see [`caller`]. Its parameter is [`external_id`](Permit::external_id).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockhouse::Error> {
    /// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
    /// # lockhouse.define("backup-slots", 10).await?;
    /// use lockhouse::caller::SqlDialect;
    ///
    /// let permit = lockhouse.semaphore("backup-slots").acquire().await?;
    /// let sql = permit.finish_sql(SqlDialect::MySql);
    /// assert!(sql.contains("external_id = ?"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn finish_sql(&self, dialect: SqlDialect) -> &'static str {
        caller::finish_sql(dialect)
    }

    /// Makes sure that the request is held, and that nobody ends it until `transaction` ends.
    ///
    /// ```
    /// # #[cfg(feature = "sqlx-0-8")]
    /// # async fn report(
    /// #     database: &mut sqlx::PgConnection,
    /// #     permit: lockhouse::Permit,
    /// # ) -> Result<(), Box<dyn std::error::Error>> {
    /// use sqlx::Connection;
    ///
    /// let mut transaction = database.begin().await?;
    /// sqlx::query("UPDATE report SET body = 'done' WHERE id = 1").execute(&mut *transaction).await?;
    /// permit.held_in(&mut transaction).await?; // if the hold was lost, the drop rolls back
    /// transaction.commit().await?; // the permit is still held
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`caller::Error::NotHeld`] if it is not, [`caller::Error::Driver`]. Roll back then.
    pub async fn held_in<T: SqlTransaction>(
        &self,
        transaction: &mut T,
    ) -> Result<(), caller::Error<T::Error>> {
        caller::held(transaction, self.external_id()).await
    }

    /// Finishes the request: its permits return with the commit of `transaction`. After the commit,
    /// [`release`](Permit::release) or drop the permit, which wakes waiters sooner.
    ///
    /// # Errors
    /// [`caller::Error::NotHeld`] if it is not held, [`caller::Error::Driver`]. Roll back then.
    pub async fn finish_in<T: SqlTransaction>(
        &self,
        transaction: &mut T,
    ) -> Result<(), caller::Error<T::Error>> {
        caller::finish(transaction, self.external_id()).await
    }

    /// Gives the permits back. [`Released::now`] tells whether they were still held.
    ///
    /// # Errors
    /// [`Error::Store`]; the permits are then given back in the background, as on drop.
    pub async fn release(mut self) -> Result<Released, Error> {
        if let Some(own) = &self.own {
            own.stop();
        }
        self.release_begins();
        let (external_id, by) = (self.external_id().clone(), self.holder());
        let released = self.lockhouse.backend().release(external_id, by).await;
        // Otherwise, or if this future is dropped before, the drop of the permit gives it back.
        self.held = !matches!(released, Ok(_) | Err(Error::Refused(_)));
        released
    }

    /// The `ended_by` of its release: its owner, or this process if it has none.
    fn holder(&self) -> Option<Owner> {
        if self.request.is_reserved() {
            return Some(Owner::lockhouse());
        }
        self.request.owner.clone().or_else(who::this_process)
    }

    /// Stops renewing the hold without giving it back, and returns its id. The hold ends with its TTL, or when somebody
    /// releases it by its id.
    ///
    /// In tokio the permit would be gone for good. To remove permits here, use
    /// [`forget_permits`](crate::Semaphore::forget_permits).
    pub fn forget(mut self) -> ExternalId {
        self.held = false;
        self.request.external_id.clone()
    }
}

impl Permit {
    /// Releases it as a drop does. The receiver gets a message when it is released.
    #[must_use]
    pub(crate) fn give_back(mut self) -> mpsc::Receiver<()> {
        self.held = false;
        self.release_in_background()
    }

    /// Calls of `try_acquire` that begin from now on come after this release.
    fn release_begins(&mut self) {
        if self.under_way.is_none() {
            let permits = self.request.permits.iter();
            let semaphores = permits.map(|permit| permit.semaphore.clone());
            self.under_way = Some(self.lockhouse.background().release_begins(semaphores));
        }
    }

    fn release_in_background(&mut self) -> mpsc::Receiver<()> {
        self.release_begins();
        let dropped = Dropped {
            external_id: self.external_id().clone(),
            by: self.holder(),
            is_anonymous: self.is_anonymous,
            ends_at: self.own.as_ref().map(Holding::held_until),
            under_way: self.under_way.take(),
            may_come_yet: false,
        };
        let background = self.lockhouse.background();
        background.give_back(self.lockhouse.backend(), &self.runtime, dropped)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.held {
            self.release_in_background();
        }
    }
}
