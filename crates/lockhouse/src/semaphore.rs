//! A handle on one semaphore, with the methods of `tokio::sync::Semaphore`.

use lockhouse_core::{Capacity, SemaphoreName};

use crate::keeper::Keeper;
use crate::{Error, Lockhouse, Permit, RequestBuilder, SemaphoreStatus};

/// A handle on one semaphore by its name; see [`Lockhouse::semaphore`].
///
/// It has the methods of `tokio::sync::Semaphore`. The [crate page](crate#compared-with-tokiosyncsemaphore) lists the
/// differences.
///
/// Every acquire makes a request under a fresh id. For another TTL, a bounded wait or a priority use
/// [`Lockhouse::request`]; to retry across a crash, [`Lockhouse::request_with_id`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lockhouse::Error> {
/// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
/// lockhouse.define("backup-slots", 10).await?;
/// let slots = lockhouse.semaphore("backup-slots");
/// let one = slots.acquire().await?;
/// let four = slots.try_acquire_many(4).await?;
/// assert_eq!(slots.available_permits().await?, 5);
/// drop((one, four));
/// assert_eq!(slots.available_permits().await?, 10);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Semaphore {
    lockhouse: Lockhouse,
    name: String,
    keeper: Option<Keeper>,
}

impl Lockhouse {
    /// A handle on the semaphore `name`, with the methods of `tokio::sync::Semaphore`. This makes no call: a name that
    /// is malformed or unknown is refused by the first call on the handle.
    pub fn semaphore(&self, name: impl AsRef<str>) -> Semaphore {
        Semaphore::new(self.clone(), name.as_ref(), None)
    }
}

impl Semaphore {
    pub(crate) fn new(lockhouse: Lockhouse, name: &str, keeper: Option<Keeper>) -> Self {
        Self {
            lockhouse,
            name: name.to_owned(),
            keeper,
        }
    }

    pub(crate) fn lockhouse(&self) -> &Lockhouse {
        &self.lockhouse
    }

    /// The semaphore's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits for one permit, as long as it takes, also while the semaphore is closed. To wait less long, use
    /// [`RequestBuilder::wait`] or `tokio::time::timeout`.
    ///
    /// Waiters are served in the order in which they arrived. The call is cancel safe: dropping the future gives up the
    /// place in the line, and a permit that was granted in that moment is given back.
    ///
    /// # Errors
    /// [`UnknownSemaphore`](crate::Refusal::UnknownSemaphore), [`ExceedsCapacity`](crate::Refusal::ExceedsCapacity),
    /// [`Error::Invalid`], [`Error::Overloaded`], [`Error::Store`]; on a session's handle
    /// [`SessionEnded`](crate::Refusal::SessionEnded) once the session is lost.
    pub async fn acquire(&self) -> Result<Permit, Error> {
        self.acquire_many(1).await
    }

    /// Waits for `count` permits at once, as long as it takes. No later waiter is served meanwhile, as in tokio, so
    /// small requests do not starve a large one.
    ///
    /// # Errors
    /// As [`acquire`](Semaphore::acquire).
    pub async fn acquire_many(&self, count: u32) -> Result<Permit, Error> {
        self.ask(count).acquire().await
    }

    /// Takes one permit if there is room now and no waiter comes first. It asks the store, so it is async.
    ///
    /// The call first waits for the releases that this client or a clone has begun, also by dropping a permit, for at
    /// most 0.4 s. So a permit that was dropped before the call is available to it.
    ///
    /// # Errors
    /// [`Exhausted`](crate::Refusal::Exhausted) or [`Closed`](crate::Refusal::Closed), and as
    /// [`acquire`](Semaphore::acquire).
    pub async fn try_acquire(&self) -> Result<Permit, Error> {
        self.try_acquire_many(1).await
    }

    /// Takes `count` permits if there is room for all of them now and no waiter comes first.
    ///
    /// # Errors
    /// As [`try_acquire`](Semaphore::try_acquire).
    pub async fn try_acquire_many(&self, count: u32) -> Result<Permit, Error> {
        self.ask(count).try_acquire().await
    }

    /// [`acquire`](Semaphore::acquire) with a future that borrows nothing, so that it can be spawned. A handle is cheap to
    /// clone, so no `Arc` is needed.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
    /// lockhouse.define("backup-slots", 10).await?;
    /// let slots = lockhouse.semaphore("backup-slots");
    /// let permit = tokio::spawn(slots.clone().acquire_owned()).await??;
    /// # drop(permit);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`acquire`](Semaphore::acquire).
    pub async fn acquire_owned(self) -> Result<Permit, Error> {
        self.acquire().await
    }

    /// [`acquire_many`](Semaphore::acquire_many) with a future that borrows nothing.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockhouse::Error> {
    /// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
    /// # lockhouse.define("backup-slots", 10).await?;
    /// let four = lockhouse.semaphore("backup-slots").acquire_many_owned(4).await?;
    /// assert_eq!(four.num_permits(), 4);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`acquire`](Semaphore::acquire).
    pub async fn acquire_many_owned(self, count: u32) -> Result<Permit, Error> {
        self.acquire_many(count).await
    }

    /// [`try_acquire`](Semaphore::try_acquire) with a future that borrows nothing.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockhouse::Error> {
    /// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
    /// # lockhouse.define("backup-slots", 10).await?;
    /// let one = lockhouse.semaphore("backup-slots").try_acquire_owned().await?;
    /// assert_eq!(one.num_permits(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`try_acquire`](Semaphore::try_acquire).
    pub async fn try_acquire_owned(self) -> Result<Permit, Error> {
        self.try_acquire().await
    }

    /// [`try_acquire_many`](Semaphore::try_acquire_many) with a future that borrows nothing.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockhouse::Error> {
    /// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
    /// # lockhouse.define("backup-slots", 10).await?;
    /// let slots = lockhouse.semaphore("backup-slots");
    /// let ten = slots.clone().try_acquire_many_owned(10).await?;
    /// assert!(slots.try_acquire_many_owned(1).await.is_err());
    /// # drop(ten);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`try_acquire`](Semaphore::try_acquire).
    pub async fn try_acquire_many_owned(self, count: u32) -> Result<Permit, Error> {
        self.try_acquire_many(count).await
    }

    /// How many permits are free. Other callers may change that before the answer arrives. The call first waits for
    /// releases, as [`try_acquire`](Semaphore::try_acquire) does.
    ///
    /// # Errors
    /// [`UnknownSemaphore`](crate::Refusal::UnknownSemaphore), [`Error::Store`].
    pub async fn available_permits(&self) -> Result<u32, Error> {
        let name = SemaphoreName::parse(&self.name)?;
        self.lockhouse.background().releases_settle([&name]).await;
        Ok(self.lockhouse.status(&name).await?.semaphore.available())
    }

    /// Whether the semaphore is closed: its capacity is 0, so nothing is granted until it is resized. Waiters wait for
    /// that. A semaphore outlives every process, so it is never closed for good as one of tokio is.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockhouse::Error> {
    /// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
    /// lockhouse.define("backup-slots", 10).await?;
    /// let slots = lockhouse.semaphore("backup-slots");
    /// slots.resize(0).await?;
    /// assert!(slots.is_closed().await?);
    /// slots.resize(10).await?;
    /// assert!(!slots.is_closed().await?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`UnknownSemaphore`](crate::Refusal::UnknownSemaphore), [`Error::Store`].
    pub async fn is_closed(&self) -> Result<bool, Error> {
        let status = self.lockhouse.status(&self.name).await?;
        Ok(status.semaphore.capacity == Capacity::CLOSED)
    }

    /// Sets the capacity of the semaphore, which must exist. 0 [closes](Semaphore::is_closed) it. The call is safe to
    /// repeat when an answer was lost; [`add_permits`](Semaphore::add_permits) is not.
    ///
    /// A capacity below the permits in use revokes nothing. Nothing is granted until there is room again. To record who
    /// resized it and why, or to resize it only from an expected capacity, use [`Lockhouse::define`].
    ///
    /// # Errors
    /// [`UnknownSemaphore`](crate::Refusal::UnknownSemaphore), [`Error::Invalid`], [`Error::Store`].
    pub async fn resize(&self, capacity: u32) -> Result<SemaphoreStatus, Error> {
        self.lockhouse
            .define(&self.name, capacity)
            .must_exist()
            .await
    }

    fn ask(&self, count: u32) -> RequestBuilder {
        let ask = self.lockhouse.request().permits(&self.name, count);
        match &self.keeper {
            Some(keeper) => ask.kept_by(keeper.clone()),
            None => ask,
        }
    }
}
