//! A cache of the permits of requests that this process granted or read lately.
//!
//! A permit's row never changes, so a cached one is always right. The cache saves a batch the read
//! of permits that it is about to free. It may forget a request, which is then read.

use std::sync::{Mutex, MutexGuard, PoisonError};

use lockhouse_core::Grant;
use lru::LruCache;

/// About how much memory it may take.
const MOST_BYTES: usize = 8 * 1024 * 1024;

/// About how many bytes a request takes, and each of its permits beside the name of its semaphore.
const REQUEST_BYTES: usize = 96;
const PERMIT_BYTES: usize = 96;

/// By the id of the request's row, which is never used again.
pub(crate) struct Known(Mutex<Cache>);

struct Cache {
    permits: LruCache<u64, Vec<Grant>>,
    bytes: usize,
}

impl Known {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Cache {
            // Unbounded, so that it allocates nothing in advance. `insert` keeps the bound.
            permits: LruCache::unbounded(),
            bytes: 0,
        }))
    }

    pub(crate) fn permits(&self, id: u64) -> Option<Vec<Grant>> {
        self.cache().permits.get(&id).cloned()
    }

    pub(crate) fn insert(&self, id: u64, permits: Vec<Grant>) {
        let mut cache = self.cache();
        cache.remove(id);
        cache.bytes += bytes(&permits);
        cache.permits.put(id, permits);
        while cache.bytes > MOST_BYTES
            && let Some((_, oldest)) = cache.permits.pop_lru()
        {
            cache.bytes -= bytes(&oldest);
        }
    }

    /// Forgets an ended request, which is seldom asked for again.
    pub(crate) fn remove(&self, id: u64) {
        self.cache().remove(id);
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cache {
    fn remove(&mut self, id: u64) {
        if let Some(permits) = self.permits.pop(&id) {
            self.bytes -= bytes(&permits);
        }
    }
}

fn bytes(permits: &[Grant]) -> usize {
    let permits = permits.iter();
    let permits = permits.map(|permit| PERMIT_BYTES + permit.semaphore.as_str().len());
    REQUEST_BYTES + permits.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockhouse_core::{Count, SemaphoreName};

    #[test]
    fn the_least_recently_used_entry_is_evicted() {
        let known = Known::new();
        let permits = |many: usize| -> Vec<Grant> {
            let permits = (0..many).map(|n| Grant {
                semaphore: SemaphoreName::parse(format!("{n:0>255}")).unwrap(),
                count: Count::ONE,
                fence: 1,
                slots: None,
            });
            permits.collect()
        };
        for id in 0..1_000 {
            known.insert(id, permits(64));
        }
        assert!(known.cache().bytes <= MOST_BYTES);
        assert!(known.permits(999).is_some());
        assert!(known.permits(0).is_none());
        known.insert(999, permits(1));
        for id in 0..1_000 {
            known.remove(id);
        }
        assert_eq!(known.cache().bytes, 0);
    }
}
