//! Which semaphores a request is for, for requests that were asked for here lately.
//!
//! It spares a read before a release or a renewal. It may forget: what it does not know is read.

use std::sync::{Mutex, MutexGuard, PoisonError};

use lockhouse_core::{ExternalId, SemaphoreName};
use lru::LruCache;

/// About 20 MB when full of requests on one semaphore each.
const MOST: usize = 100_000;

#[derive(Debug)]
pub(super) struct Known {
    requests: Mutex<LruCache<ExternalId, Vec<SemaphoreName>>>,
}

impl Known {
    pub(super) fn new() -> Self {
        // Unbounded, so that it takes no memory beforehand; `insert` keeps the bound.
        Self {
            requests: Mutex::new(LruCache::unbounded()),
        }
    }

    pub(super) fn semaphores(&self, external_id: &ExternalId) -> Option<Vec<SemaphoreName>> {
        self.requests().get(external_id).cloned()
    }

    pub(super) fn insert(&self, external_id: &ExternalId, semaphores: Vec<SemaphoreName>) {
        let mut requests = self.requests();
        requests.put(external_id.clone(), semaphores);
        if requests.len() > MOST {
            requests.pop_lru();
        }
    }

    /// Forgets it; the semaphores that it was for, if that was known.
    pub(super) fn remove(&self, external_id: &ExternalId) -> Vec<SemaphoreName> {
        self.requests().pop(external_id).unwrap_or_default()
    }

    fn requests(&self) -> MutexGuard<'_, LruCache<ExternalId, Vec<SemaphoreName>>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
