//! The [`Engine`]: a handle on the store, and on the state that all calls share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lockhouse_core::store::{FullStore, Kind};
use lockhouse_core::{ProcessId, Refusal, SemaphoreName, SemaphoreRow};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::grant_cache::GrantCache;
use super::listings::Listings;
use super::retry::Retry;
use super::singleflight::{Ending, Singleflight};
use super::state::EngineState;
use super::sweep_timer::SweepTimer;
use crate::Error;
use crate::upkeep::Health;

#[derive(Clone, Debug)]
pub(crate) struct Engine {
    pub(super) store: Arc<dyn FullStore>,
    pub(super) retry: Arc<Retry>,
    pub(super) shared: Arc<Shared>,
}

/// The state that all calls share.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<EngineState>,
    pub(super) grants: GrantCache,
    pub(super) listings: Listings,
    pub(super) looks: Singleflight,
    pub(super) ending: Ending,
    pub(super) sweep_timer: SweepTimer,
    /// Wakes the poller.
    pub(super) poller: Notify,
    pub(super) upkeep: Mutex<Health>,
}

impl Engine {
    pub(crate) fn new(store: Arc<dyn FullStore>) -> Self {
        let process = ProcessId::new(fastrand::u64(1..));
        let connections = store.connections().most;
        let state = EngineState::new(store.max_batch(), connections, process, Instant::now());
        let retry = Arc::<Retry>::default();
        let shared = Shared {
            state: Mutex::new(state),
            grants: GrantCache::new(),
            listings: Listings::new(Arc::clone(&store), Arc::clone(&retry)),
            looks: Singleflight::default(),
            ending: Ending::default(),
            sweep_timer: SweepTimer::new(),
            poller: Notify::new(),
            upkeep: Mutex::default(),
        };
        Self {
            store,
            retry,
            shared: Arc::new(shared),
        }
    }

    /// The state machines, as of now.
    pub(super) fn state(&self) -> MutexGuard<'_, EngineState> {
        let state = self.shared.state.lock();
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        state.at(Instant::now());
        state
    }

    /// Sets how many calls may wait for room. Further calls are refused as overloaded.
    pub(crate) fn limit_waiters(&self, most: usize) {
        self.state().waiting.limit(most);
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
    ) -> Result<SemaphoreRow, Error> {
        let semaphore = self
            .retry
            .read(deadline, || self.store.semaphore(name))
            .await?;
        Ok(semaphore.ok_or_else(|| Refusal::UnknownSemaphore(vec![name.clone()]))?)
    }

    /// How many calls of this process wait for `name`.
    pub(super) fn waiting_on(&self, name: &SemaphoreName) -> u32 {
        self.state().waiting.on(name)
    }
}
