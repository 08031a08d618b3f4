//! [`RwLock`]: many readers, or one writer.

use crate::pool::Pool;
use crate::{Error, Lockhouse, Permit};

/// The greatest capacity, so that no later resize can let a reader in beside a writer.
const ALL: u32 = i32::MAX.cast_unsigned();

/// A readers-writer lock by name; see [`Lockhouse::rwlock`]. A reader takes one permit of its semaphore, a writer all
/// 2,147,483,647.
///
/// It differs from `tokio::sync::RwLock` as [`Mutex`](crate::Mutex) differs from tokio's: it contains no data, the guards
/// are [permits](Permit) that can be [lost](Permit::lost), and calls can fail.
///
/// As in tokio, writers do not starve: readers and writers that arrive after a waiting writer are served after it, at
/// whichever process they wait.
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
    /// A handle on the readers-writer lock `name`. Its first use creates the semaphore `name` with capacity
    /// 2,147,483,647 if it does not exist, and refuses one of another capacity.
    pub fn rwlock(&self, name: impl AsRef<str>) -> RwLock {
        RwLock(Pool::new(self.semaphore(name), ALL))
    }
}

impl RwLock {
    /// The name of the lock and of its semaphore.
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// Waits until no writer holds the lock and no earlier writer waits for it.
    ///
    /// Cancel safe, as [`Mutex::lock`](crate::Mutex::lock).
    ///
    /// # Errors
    /// As [`Mutex::lock`](crate::Mutex::lock).
    pub async fn read(&self) -> Result<Permit, Error> {
        self.0.acquire(1).await
    }

    /// Takes the lock for reading if no writer holds it or waits for it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockhouse::Error> {
    /// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
    /// let catalogue = lockhouse.rwlock("catalogue");
    /// let writer = catalogue.write().await?;
    /// assert!(catalogue.try_read().await.is_err());
    /// writer.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Exhausted`](crate::Refusal::Exhausted) or [`Closed`](crate::Refusal::Closed), and as [`read`](RwLock::read).
    pub async fn try_read(&self) -> Result<Permit, Error> {
        self.0.try_acquire(1).await
    }

    /// Waits until no reader and no writer holds the lock.
    ///
    /// Cancel safe, as [`Mutex::lock`](crate::Mutex::lock).
    ///
    /// # Errors
    /// As [`read`](RwLock::read); [`ExceedsCapacity`](crate::Refusal::ExceedsCapacity) if the semaphore was resized after
    /// this handle's first use.
    pub async fn write(&self) -> Result<Permit, Error> {
        self.0.acquire(ALL).await
    }

    /// Takes the lock for writing if no reader and no writer holds it.
    ///
    /// # Errors
    /// [`Exhausted`](crate::Refusal::Exhausted) or [`Closed`](crate::Refusal::Closed), and as [`write`](RwLock::write).
    pub async fn try_write(&self) -> Result<Permit, Error> {
        self.0.try_acquire(ALL).await
    }
}
