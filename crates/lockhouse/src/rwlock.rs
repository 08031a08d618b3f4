//! Many who read, or one who writes.

use crate::pool::Pool;
use crate::{Error, Lockhouse, Permit};

/// All permits that there can be, so that no later resize can let a reader in beside a writer.
const ALL: u32 = i32::MAX.cast_unsigned();

/// A readers-writer lock by name; see [`Lockhouse::rwlock`]. A reader takes one permit of its
/// semaphore, a writer all 2,147,483,647.
///
/// It differs from `tokio::sync::RwLock` as [`Mutex`](crate::Mutex) does from its own: it holds no
/// data, the guards are [permits](Permit) that can be [lost](Permit::lost), and there are errors.
///
/// As with tokio's, writers are not starved: a caller that comes after a waiting writer stands behind it,
/// reader or not, whichever process it waits at.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lockhouse::Error> {
/// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
/// let catalogue = lockhouse.rwlock("catalogue");
/// let (one, two) = (catalogue.read().await?, catalogue.read().await?);
/// assert!(catalogue.try_write().await.is_err());
/// one.release().await?;
/// two.release().await?;
/// let writer = catalogue.write().await?;
/// writer.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RwLock(Pool);

impl Lockhouse {
    /// A handle on the readers-writer lock `name`. Its first use makes the semaphore if there is
    /// none; one of another capacity than 2,147,483,647 is refused then.
    pub fn rwlock(&self, name: impl AsRef<str>) -> RwLock {
        RwLock(Pool::new(self.semaphore(name), ALL))
    }
}

impl RwLock {
    /// The lock's name, which is its semaphore's.
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// Waits until nobody writes, or waits to since before.
    ///
    /// Cancel safe, as [`Mutex::lock`](crate::Mutex::lock).
    ///
    /// # Errors
    /// `capacity_changed` if there is such a semaphore, of another capacity; `store_unavailable`,
    /// `overloaded`.
    pub async fn read(&self) -> Result<Permit, Error> {
        self.0.acquire(1).await
    }

    /// Reads if nobody writes, or waits to.
    ///
    /// # Errors
    /// `exhausted`, and as [`read`](RwLock::read).
    pub async fn try_read(&self) -> Result<Permit, Error> {
        self.0.try_acquire(1).await
    }

    /// Waits until nobody reads or writes.
    ///
    /// Cancel safe, as [`Mutex::lock`](crate::Mutex::lock).
    ///
    /// # Errors
    /// As [`read`](RwLock::read); `exceeds_capacity` if the semaphore was made smaller since.
    pub async fn write(&self) -> Result<Permit, Error> {
        self.0.acquire(ALL).await
    }

    /// Writes if nobody reads or writes.
    ///
    /// # Errors
    /// `exhausted`, and as [`write`](RwLock::write).
    pub async fn try_write(&self) -> Result<Permit, Error> {
        self.0.try_acquire(ALL).await
    }
}
