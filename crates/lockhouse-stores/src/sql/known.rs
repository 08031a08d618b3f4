//! The permits of requests that were granted or read here lately.
//!
//! A permit's row never changes, so what was read of it once is as true as the row. It spares a
//! batch reading what it is about to give back. It may forget: what it does not know is read.

use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lockhouse_core::Permit;
use lru::LruCache;

/// A few megabytes when full.
const MOST: NonZeroUsize = NonZeroUsize::new(16_384).expect("it is not 0");

/// By the id of the request's row, which no other request ever has.
pub(crate) struct Known(Mutex<LruCache<u64, Vec<Permit>>>);

impl Known {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(LruCache::new(MOST)))
    }

    pub(crate) fn permits(&self, id: u64) -> Option<Vec<Permit>> {
        self.cache().get(&id).cloned()
    }

    pub(crate) fn insert(&self, id: u64, permits: Vec<Permit>) {
        self.cache().put(id, permits);
    }

    /// Forgets what has ended, as it is seldom asked for again.
    pub(crate) fn remove(&self, id: u64) {
        self.cache().pop(&id);
    }

    fn cache(&self) -> MutexGuard<'_, LruCache<u64, Vec<Permit>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
