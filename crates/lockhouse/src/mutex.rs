//! [`Mutex`]: a semaphore of capacity 1.

use crate::pool::Pool;
use crate::{Error, Lockhouse, Permit};

/// A mutex by name: a semaphore of capacity 1; see [`Lockhouse::mutex`].
///
/// It differs from `tokio::sync::Mutex`:
/// - It contains no data. The data that it protects is elsewhere, so let that resource check the
///   [fence](Permit::fence).
/// - The guard is a [`Permit`]: it renews itself, it can be [lost](Permit::lost), and dropping it unlocks in the
///   background.
/// - Calls can fail, since they ask a store.
/// - Waiters are served in the order of arrival, across all processes; between two processes within half a second.
/// - It is advisory: only callers that lock it are bound by it. Like tokio's it is not reentrant.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lockhouse::Error> {
/// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
/// let deploy = lockhouse.mutex("deploy");
/// let guard = deploy.lock().await?;
/// println!("nobody else deploys; fence {}", guard.fence("deploy"));
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Mutex(Pool);

impl Lockhouse {
    /// A handle on the mutex `name`. Its first use creates the semaphore `name` with capacity 1 if it does not exist, and
    /// refuses one of another capacity. An operator that resizes it later turns it into a semaphore.
    pub fn mutex(&self, name: impl AsRef<str>) -> Mutex {
        Mutex(Pool::new(self.semaphore(name), 1))
    }
}

impl Mutex {
    /// The name of the mutex and of its semaphore.
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// Waits for the lock, as long as it takes, also while the semaphore is closed.
    ///
    /// Cancel safe: dropping the future gives up the place in the line, and a lock that was granted in that moment is
    /// given back.
    ///
    /// # Errors
    /// [`CapacityChanged`](crate::Refusal::CapacityChanged) if the semaphore exists with another capacity;
    /// [`UnknownSemaphore`](crate::Refusal::UnknownSemaphore) if it was deleted after this handle's first use and no
    /// template matches its name;
    /// [`Error::Overloaded`], [`Error::Store`].
    pub async fn lock(&self) -> Result<Permit, Error> {
        self.0.acquire(1).await
    }

    /// Takes the lock if it is free now and no waiter comes first.
    ///
    /// # Errors
    /// [`Exhausted`](crate::Refusal::Exhausted) or [`Closed`](crate::Refusal::Closed), and as [`lock`](Mutex::lock).
    pub async fn try_lock(&self) -> Result<Permit, Error> {
        self.0.try_acquire(1).await
    }
}
