//! A handle on one semaphore, in the manner of `tokio::sync::Semaphore`.

use crate::{Error, Lockhouse, Permit, RequestBuilder};

/// One semaphore by name; see [`Lockhouse::semaphore`].
///
/// Every acquire makes a request of its own under a fresh id (a UUID), so none is confused with
/// another. To be able to retry one across a crash, pick the id: [`Lockhouse::request`].
#[derive(Clone, Debug)]
pub struct Semaphore {
    lockhouse: Lockhouse,
    name: String,
}

impl Semaphore {
    pub(crate) fn new(lockhouse: Lockhouse, name: &str) -> Self {
        Self {
            lockhouse,
            name: name.to_owned(),
        }
    }

    /// The semaphore's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits for one permit, as long as it takes.
    ///
    /// Cancel safe: dropping the future gives up the place in the queue, and a permit granted in
    /// that moment is given back.
    ///
    /// # Errors
    /// `unknown_semaphore`, `exceeds_capacity` (also when the capacity is 0), `store_unavailable`,
    /// `overloaded`.
    pub async fn acquire(&self) -> Result<Permit, Error> {
        self.acquire_many(1).await
    }

    /// Waits for `count` permits at once, as long as it takes.
    ///
    /// # Errors
    /// As [`acquire`](Semaphore::acquire).
    pub async fn acquire_many(&self, count: u32) -> Result<Permit, Error> {
        self.ask(count).acquire().await
    }

    /// One permit if there is room now, and nobody waits for it.
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

    /// How many permits could be granted now. By the time that you read it, it may be otherwise.
    ///
    /// # Errors
    /// `unknown_semaphore`, `store_unavailable`.
    pub async fn available_permits(&self) -> Result<u32, Error> {
        Ok(self
            .lockhouse
            .status(&self.name)
            .await?
            .semaphore
            .available())
    }

    fn ask(&self, count: u32) -> RequestBuilder {
        RequestBuilder::anonymous(self.lockhouse.clone()).permits(&self.name, count)
    }
}
