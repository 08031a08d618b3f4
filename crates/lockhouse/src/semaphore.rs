//! A handle on one semaphore, in the manner of `tokio::sync::Semaphore`.

use lockhouse_core::SemaphoreName;

use crate::session::Keeper;
use crate::{Error, Lockhouse, Permit, RequestBuilder, SemaphoreStatus};

/// One semaphore by name; see [`Lockhouse::semaphore`].
///
/// Who knows `tokio::sync::Semaphore` knows this. It differs where a database and other machines
/// come in:
///
/// | | tokio | here |
/// |---|---|---|
/// | made by | `new(n)` | [`define`](Lockhouse::define), once, by anybody; the handle is only a name |
/// | errors | closed | the store can be out of reach, the semaphore unknown or too small |
/// | a permit | borrows; `acquire_owned` needs an `Arc` | borrows nothing, ever |
/// | holding | for ever | as long as it is renewed: a [`Permit`] can be [lost](Permit::lost) |
/// | order | first come, first served | so too, over all processes; between two of them up to a quarter of a second |
/// | dropping a waiting future | gives the place up | so too; what was granted in that moment is given back |
/// | dropping a permit | gives it back at once | gives it back in the background; a later `try_acquire` of the same client comes after it |
/// | `forget` | takes a permit away for good | it comes back with its time to live |
/// | `add_permits`, `forget_permits` | add and take | so too, in a few calls; [`resize`](Semaphore::resize) sets, and is safe to repeat |
/// | `merge`, `split` of a permit | join and part | not here: a permit is one request, with one id and one fence, that ends once |
/// | `close` | wakes all waiters, with an error | not here: a semaphore outlives every process. Resized to 0 it is paused, and waiters wait |
/// | | | every grant has a [fence](Permit::fence) |
///
/// Every acquire makes a request of its own under a fresh id (a UUID), so none is confused with
/// another. For another TTL or a bounded wait there is [`Lockhouse::request`]; to be able to retry one
/// across a crash, pick the id: [`Lockhouse::request_with_id`].
#[derive(Clone, Debug)]
pub struct Semaphore {
    lockhouse: Lockhouse,
    name: String,
    keeper: Option<Keeper>,
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

    /// Waits for one permit, as long as it takes, also while the semaphore is closed; for less,
    /// `tokio::time::timeout` will do.
    ///
    /// First come, first served, and cancel safe: dropping the future gives up the place in the
    /// queue, and a permit granted in that moment is given back.
    ///
    /// # Errors
    /// `unknown_semaphore`, `exceeds_capacity`, `store_unavailable`, `overloaded`; of a session's,
    /// `session_ended` once that is lost.
    pub async fn acquire(&self) -> Result<Permit, Error> {
        self.acquire_many(1).await
    }

    /// Waits for `count` permits at once, as long as it takes. Nobody behind it is granted any
    /// meanwhile, as with tokio's.
    ///
    /// # Errors
    /// As [`acquire`](Semaphore::acquire).
    pub async fn acquire_many(&self, count: u32) -> Result<Permit, Error> {
        self.ask(count).acquire().await
    }

    /// One permit if there is room now, and nobody waits for it. It asks the store, so it is async.
    ///
    /// A permit that this client, or a clone, dropped or began to release before is back by then: the call
    /// waits for such releases, for 0.4 s at most.
    ///
    /// # Errors
    /// `exhausted`, and as [`acquire`](Semaphore::acquire).
    pub async fn try_acquire(&self) -> Result<Permit, Error> {
        self.try_acquire_many(1).await
    }

    /// `count` permits if there is room for all of them now.
    ///
    /// # Errors
    /// As [`try_acquire`](Semaphore::try_acquire).
    pub async fn try_acquire_many(&self, count: u32) -> Result<Permit, Error> {
        self.ask(count).try_acquire().await
    }

    /// [`acquire`](Semaphore::acquire), whose future borrows nothing either, so that it can be
    /// spawned. A handle is cheap to clone, so no `Arc` is needed.
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

    /// [`acquire_many`](Semaphore::acquire_many), whose future borrows nothing either.
    ///
    /// # Errors
    /// As [`acquire`](Semaphore::acquire).
    pub async fn acquire_many_owned(self, count: u32) -> Result<Permit, Error> {
        self.acquire_many(count).await
    }

    /// [`try_acquire`](Semaphore::try_acquire), whose future borrows nothing either.
    ///
    /// # Errors
    /// As [`try_acquire`](Semaphore::try_acquire).
    pub async fn try_acquire_owned(self) -> Result<Permit, Error> {
        self.try_acquire().await
    }

    /// [`try_acquire_many`](Semaphore::try_acquire_many), whose future borrows nothing either.
    ///
    /// # Errors
    /// As [`try_acquire`](Semaphore::try_acquire).
    pub async fn try_acquire_many_owned(self, count: u32) -> Result<Permit, Error> {
        self.try_acquire_many(count).await
    }

    /// How many permits could be granted now. By the time that you read it, it may be otherwise.
    /// Releases that this client or a clone has begun come first, as with
    /// [`try_acquire`](Semaphore::try_acquire).
    ///
    /// # Errors
    /// `unknown_semaphore`, `store_unavailable`.
    pub async fn available_permits(&self) -> Result<u32, Error> {
        let name = SemaphoreName::parse(&self.name)?;
        self.lockhouse.background().releases_settle([&name]).await;
        Ok(self.lockhouse.status(&name).await?.semaphore.available())
    }

    /// Sets the capacity of the semaphore, which must exist; 0 pauses it. It is safe
    /// to repeat when an answer was lost; [`add_permits`](Semaphore::add_permits) is not.
    ///
    /// A capacity below what is held revokes nothing; nothing is granted until there is room. To
    /// say who did it and why, or to set it only from a value that you know: [`Lockhouse::define`].
    ///
    /// # Errors
    /// `unknown_semaphore`, `invalid_request`, `store_unavailable`.
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
