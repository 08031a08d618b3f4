//! A semaphore whose capacity is part of what it means: a mutex's, or a readers-writer lock's.

use std::sync::Arc;

use lockhouse_core::{Capacity, Refusal};
use tokio::sync::OnceCell;

use crate::{Error, Semaphore};

/// A semaphore, and the capacity that it must have.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    semaphore: Semaphore,
    capacity: u32,
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

    /// The semaphore, which has that capacity: that is seen to at the first use of the handle and
    /// its clones.
    pub(crate) async fn semaphore(&self) -> Result<&Semaphore, Error> {
        self.checked.get_or_try_init(|| self.check()).await?;
        Ok(&self.semaphore)
    }

    async fn check(&self) -> Result<(), Error> {
        let (lockhouse, expected) = (self.semaphore.lockhouse(), Capacity::new(self.capacity)?);
        let status = match lockhouse.status(self.name()).await {
            Err(Error::Refused(Refusal::UnknownSemaphore(_))) => {
                // Somebody may make another of it meanwhile.
                lockhouse
                    .define(self.name(), self.capacity)
                    .as_it_is()
                    .await?
            }
            found => found?,
        };
        let found = status.semaphore;
        if found.capacity == expected {
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
