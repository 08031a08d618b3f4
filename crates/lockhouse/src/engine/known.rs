//! What requests that were asked for here lately are for.
//!
//! It spares a read before a release or a renewal, and tells what a release will give back. It may
//! forget: what it does not know is read.

use std::sync::{Mutex, MutexGuard, PoisonError};

use lockhouse_core::{Ask, Count, ExternalId, SemaphoreName};
use lru::LruCache;

/// About 20 MB when full of requests on one semaphore each.
const MOST: usize = 100_000;

/// What is known of a request.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) permits: Vec<(SemaphoreName, Count)>,
    /// Whether it was granted.
    pub(super) is_held: bool,
}

#[derive(Debug)]
pub(super) struct Known {
    requests: Mutex<LruCache<ExternalId, Request>>,
}

impl Known {
    pub(super) fn new() -> Self {
        // Unbounded, so that it takes no memory beforehand; `insert` keeps the bound.
        Self {
            requests: Mutex::new(LruCache::unbounded()),
        }
    }

    pub(super) fn get(&self, external_id: &ExternalId) -> Option<Request> {
        self.requests().get(external_id).cloned()
    }

    pub(super) fn insert(&self, ask: &Ask) {
        let permits = ask.permits().map(|(name, count)| (name.clone(), count));
        let asked = Request {
            permits: permits.collect(),
            is_held: false,
        };
        let mut requests = self.requests();
        let before = requests.put(ask.external_id.clone(), asked);
        if let Some(before) = before.filter(|before| before.is_held)
            && let Some(now) = requests.get_mut(&ask.external_id)
        {
            *now = before;
        }
        if requests.len() > MOST {
            requests.pop_lru();
        }
    }

    pub(super) fn hold(&self, external_id: &ExternalId) {
        if let Some(request) = self.requests().get_mut(external_id) {
            request.is_held = true;
        }
    }

    /// Forgets it; what it held, if that was known.
    pub(super) fn remove(&self, external_id: &ExternalId) -> Vec<(SemaphoreName, Count)> {
        let request = self.requests().pop(external_id);
        let held = request.filter(|request| request.is_held);
        held.map_or_else(Vec::new, |request| request.permits)
    }

    fn requests(&self) -> MutexGuard<'_, LruCache<ExternalId, Request>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
