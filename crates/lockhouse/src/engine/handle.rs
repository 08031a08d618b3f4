//! The [`Engine`]: a handle on the store, the driver, and the state that calls share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lockhouse_core::store::{FullStore, Kind};
use lockhouse_core::{Refusal, Semaphore, SemaphoreName};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::driver::Driver;
use super::listings::Listings;
use super::retry::Retry;
use super::singleflight::{Ending, Looked};
use super::sweep_timer::SweepTimer;
use crate::Error;
use crate::upkeep::Health;

#[derive(Clone, Debug)]
pub(crate) struct Engine {
    pub(super) store: Arc<dyn FullStore>,
    pub(super) driver: Driver,
    pub(super) retry: Arc<Retry>,
    pub(super) listings: Listings,
    pub(super) shared: Arc<Shared>,
}

/// State that calls share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) looked: Looked,
    pub(super) ending: Ending,
    pub(super) sweep_timer: SweepTimer,
    /// Wakes the poller when a call begins to wait.
    pub(super) someone_new: Notify,
    pub(super) upkeep: Mutex<Health>,
}

impl Engine {
    pub(crate) fn new(store: Arc<dyn FullStore>) -> Self {
        let shared = Arc::new(Shared {
            looked: Looked::default(),
            ending: Ending::default(),
            sweep_timer: SweepTimer::new(),
            someone_new: Notify::new(),
            upkeep: Mutex::default(),
        });
        let retry = Arc::<Retry>::default();
        let driver = Driver::new(Arc::clone(&store), Arc::clone(&retry));
        Self {
            listings: Listings::new(Arc::clone(&store), Arc::clone(&retry)),
            store,
            driver,
            retry,
            shared,
        }
    }

    /// Sets how many calls may wait for room. Further calls are refused as overloaded.
    pub(crate) fn limit_waiters(&self, most: usize) {
        self.driver.state().waiting.most = most;
    }

    /// How often calls to the store were tried again after each kind of error.
    pub(crate) fn retries(&self) -> impl Iterator<Item = (Kind, u64)> + '_ {
        self.retry.counts()
    }

    /// The state of the upkeep in this process.
    pub(crate) fn upkeep(&self) -> MutexGuard<'_, Health> {
        let health = self.shared.upkeep.lock();
        health.unwrap_or_else(PoisonError::into_inner)
    }

    /// The semaphore `name`, which must exist.
    pub(super) async fn existing(
        &self,
        name: &SemaphoreName,
        deadline: Instant,
    ) -> Result<Semaphore, Error> {
        let semaphore = self
            .retry
            .read(deadline, || self.store.semaphore(name))
            .await?;
        Ok(semaphore.ok_or_else(|| Refusal::UnknownSemaphore(vec![name.clone()]))?)
    }

    /// How many calls of this process wait for `name`.
    pub(super) fn waiting_on(&self, name: &SemaphoreName) -> u32 {
        self.driver.state().waiting.on(name)
    }
}
