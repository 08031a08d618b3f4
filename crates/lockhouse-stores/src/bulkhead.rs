//! A bulkhead: at most so many calls use connections at once. Further calls queue, first come, first served, and are counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

#[derive(Debug)]
pub(crate) struct Bulkhead {
    free: Arc<Semaphore>,
    most: usize,
    queued: AtomicUsize,
}

/// A call that queues. Dropping it decrements the count.
struct Queued<'a>(&'a AtomicUsize);

impl Bulkhead {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            free: Arc::new(Semaphore::new(most)),
            most,
            queued: AtomicUsize::new(0),
        }
    }

    /// Admits the caller, unless there is no room before `deadline`.
    pub(crate) async fn admit(&self, deadline: Instant) -> Option<OwnedSemaphorePermit> {
        self.queued.fetch_add(1, Relaxed);
        let _queued = Queued(&self.queued);
        let admitted = timeout_at(deadline, Arc::clone(&self.free).acquire_owned()).await;
        admitted.ok()?.ok()
    }

    pub(crate) fn most(&self) -> usize {
        self.most
    }

    pub(crate) fn taken(&self) -> usize {
        self.most - self.free.available_permits()
    }

    /// How many calls queue.
    pub(crate) fn queued(&self) -> usize {
        self.queued.load(Relaxed)
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn calls_that_are_admitted_or_queue_are_counted() {
        let bulkhead = Bulkhead::new(1);
        let soon = || Instant::now() + Duration::from_secs(1);
        let admitted = bulkhead.admit(soon()).await.unwrap();
        assert_eq!((bulkhead.taken(), bulkhead.queued()), (1, 0));
        let waiting = bulkhead.admit(soon());
        tokio::pin!(waiting);
        assert!(timeout(Duration::ZERO, waiting.as_mut()).await.is_err());
        assert_eq!(bulkhead.queued(), 1);
        assert!(waiting.await.is_none());
        assert_eq!(bulkhead.queued(), 0);
        drop(admitted);
        assert_eq!(bulkhead.taken(), 0);
    }
}
