//! Relative resizing: adding permits to a semaphore, and removing some.
//!
//! The store can set a capacity on the condition that it is still the one that the caller read. The
//! condition also accepts the new capacity, so that a call can be repeated after a lost answer. So
//! two callers that both add 1 to 5 would both get 6. Therefore each change has a unique note, and
//! a caller whose note is not in the history begins again.

use lockhouse_core::{Capacity, Code, SemaphoreName};

use crate::{Error, Semaphore};

/// How many changes back a caller looks for its note.
const CHANGES: u32 = 1000;

impl Semaphore {
    /// The greatest capacity of a semaphore; see [`add_permits`](Semaphore::add_permits).
    pub const MAX_PERMITS: u32 = i32::MAX as u32;

    /// Adds `count` permits to the semaphore, and returns its new capacity.
    ///
    /// Any number of callers may do so at once, and none of the added permits is lost. Unlike
    /// [`resize`](Semaphore::resize), the call is not safe to repeat after an error that is
    /// [maybe applied](Error::maybe_applied): look at the [history](crate::Lockhouse::history) first.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockhouse::Error> {
    /// use lockhouse::Semaphore;
    ///
    /// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
    /// lockhouse.define("backup-slots", 10).await?;
    /// let slots = lockhouse.semaphore("backup-slots");
    /// assert_eq!(slots.add_permits(2).await?, 12);
    /// assert_eq!(slots.available_permits().await?, 12);
    /// assert!(slots.add_permits(Semaphore::MAX_PERMITS).await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`UnknownSemaphore`](crate::Refusal::UnknownSemaphore); [`Error::Invalid`] beyond
    /// [`MAX_PERMITS`](Semaphore::MAX_PERMITS); [`Error::Store`].
    pub async fn add_permits(&self, count: u32) -> Result<u32, Error> {
        let add = |capacity: u32, _available| i64::from(capacity) + i64::from(count);
        let (_, capacity) = self.change(add).await?;
        Ok(capacity)
    }

    /// Removes up to `count` free permits for good, and returns how many it removed.
    ///
    /// Held permits stay held. A permit that is acquired during this call may be among the removed ones: it stays held,
    /// and is not granted again after its release. Like [`add_permits`](Semaphore::add_permits), the call is not safe to
    /// repeat.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockhouse::Error> {
    /// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
    /// lockhouse.define("backup-slots", 10).await?;
    /// let slots = lockhouse.semaphore("backup-slots");
    /// let permit = slots.acquire_many(7).await?;
    /// assert_eq!(slots.forget_permits(5).await?, 3);
    /// permit.release().await?;
    /// assert_eq!(slots.available_permits().await?, 7);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`UnknownSemaphore`](crate::Refusal::UnknownSemaphore), [`Error::Store`].
    pub async fn forget_permits(&self, count: u32) -> Result<u32, Error> {
        let forget =
            |capacity: u32, available: u32| i64::from(capacity) - i64::from(available.min(count));
        let (old, new) = self.change(forget).await?;
        Ok(old - new)
    }

    /// Sets the capacity to the result of `change`, which gets the capacity and the available
    /// permits. Returns the old and the new capacity.
    async fn change(&self, change: impl Fn(u32, u32) -> i64) -> Result<(u32, u32), Error> {
        let name = SemaphoreName::parse(self.name())?;
        loop {
            self.lockhouse().background().releases_settle([&name]).await;
            let semaphore = self.lockhouse().status(&name).await?.semaphore;
            let old = semaphore.capacity.value();
            let capacity = Capacity::new(change(old, semaphore.available()))?;
            if capacity == semaphore.capacity {
                return Ok((old, old));
            }
            if self.change_from(&name, old, capacity.value()).await? {
                return Ok((old, capacity.value()));
            }
        }
    }

    /// Sets the capacity from `old` to `new`. Returns whether this call did so.
    async fn change_from(&self, name: &SemaphoreName, old: u32, new: u32) -> Result<bool, Error> {
        let note = format!("{old} to {new}, {}", uuid::Uuid::now_v7());
        let define = self.lockhouse().define(name, new).must_exist();
        match define.expected(old).note(&*note).await {
            Ok(_) => {}
            Err(error) if error.code() == Code::CapacityChanged => return Ok(false),
            Err(error) => return Err(error),
        }
        let changes = self.lockhouse().history(name, CHANGES).await?;
        let mut notes = changes.iter().filter_map(|change| change.note.as_ref());
        Ok(notes.any(|own| own.as_str() == note))
    }
}
