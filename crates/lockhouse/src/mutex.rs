//! One at a time.

use crate::pool::Pool;
use crate::{Error, Lockhouse, Permit};

/// A mutex by name: a semaphore of capacity 1; see [`Lockhouse::mutex`].
///
/// It differs from `tokio::sync::Mutex`:
/// - It holds no data. What it guards lies elsewhere, and does not know of it; so
///   [check there](Permit::fence) that the lock is still yours.
/// - The guard is a [`Permit`]: it renews itself and can be [lost](Permit::lost), and its drop
///   unlocks in the background, in a moment.
/// - There are errors, as there is a store to reach.
/// - Its order is first come, first served: exact within a process, and up to a quarter of a second between processes.
/// - Nobody is bound to it but those who ask it. Like tokio's it is not reentrant: a second
///   `lock` waits for the first to be given back.
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
    /// A handle on the mutex `name`. Its first use makes the semaphore, of capacity 1, if there is
    /// none; one of another capacity is refused then. Who resizes it later makes it a semaphore.
    pub fn mutex(&self, name: impl AsRef<str>) -> Mutex {
        Mutex(Pool::new(self.semaphore(name), 1))
    }
}

impl Mutex {
    /// The mutex's name, which is its semaphore's.
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// Waits for the lock, as long as it takes; also while the semaphore is closed.
    ///
    /// Cancel safe: dropping the future gives up the place in the queue, and a lock that was
    /// granted in that moment is given back.
    ///
    /// # Errors
    /// `capacity_changed` if there is such a semaphore, of another capacity; `unknown_semaphore` if
    /// it was deleted since this handle's first use; `store_unavailable`, `overloaded`.
    pub async fn lock(&self) -> Result<Permit, Error> {
        self.0.acquire(1).await
    }

    /// The lock if it is free now, and nobody waits for it.
    ///
    /// # Errors
    /// `exhausted`, and as [`lock`](Mutex::lock).
    pub async fn try_lock(&self) -> Result<Permit, Error> {
        self.0.try_acquire(1).await
    }
}
