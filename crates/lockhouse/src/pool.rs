//! A semaphore with a fixed capacity: that of a mutex or of a readers-writer lock.
//!
//! The capacity is checked at the first use of a handle and its clones. A closed semaphore passes,
//! since it is only paused: callers wait for it to open, and its new capacity is checked after the
//! grant.

use std::sync::Arc;

use lockhouse_core::{Capacity, Refusal};
use tokio::sync::OnceCell;

use crate::{Error, Permit, Semaphore};

/// A semaphore, and the capacity that it must have.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    semaphore: Semaphore,
    capacity: u32,
    /// Set once the semaphore was seen open with that capacity.
    checked: Arc<OnceCell<()>>,
}

impl Pool {
    pub(crate) fn new(semaphore: Semaphore, capacity: u32) -> Self {
        Self {
            semaphore,
            capacity,
            checked: Arc::default(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        self.semaphore.name()
    }

    /// Waits for `count` permits.
    pub(crate) async fn acquire(&self, count: u32) -> Result<Permit, Error> {
        self.check().await?;
        let permit = self.semaphore.acquire_many(count).await?;
        self.check().await?;
        Ok(permit)
    }

    /// Takes `count` permits if they are free now.
    pub(crate) async fn try_acquire(&self, count: u32) -> Result<Permit, Error> {
        self.check().await?;
        let permit = self.semaphore.try_acquire_many(count).await?;
        self.check().await?;
        Ok(permit)
    }

    /// Checks that the semaphore has that capacity or is closed, and creates it if it does not
    /// exist.
    async fn check(&self) -> Result<(), Error> {
        if self.checked.initialized() {
            return Ok(());
        }
        let (lockhouse, expected) = (self.semaphore.lockhouse(), Capacity::new(self.capacity)?);
        let status = match lockhouse.status(self.name()).await {
            Err(Error::Refused(Refusal::UnknownSemaphore(_))) => {
                // Another caller may resize it meanwhile.
                lockhouse
                    .define(self.name(), self.capacity)
                    .if_missing()
                    .await?
            }
            found => found?,
        };
        let found = status.semaphore;
        if found.capacity == expected {
            // Another task may have set it meanwhile.
            let _ = self.checked.set(());
            return Ok(());
        }
        if found.capacity == Capacity::CLOSED {
            return Ok(());
        }
        Err(Refusal::CapacityChanged {
            name: found.name,
            expected,
            capacity: found.capacity,
        }
        .into())
    }
}
