//! Turns of calls on a few connections: first come, first served, and counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

#[derive(Debug)]
pub(crate) struct Turns {
    free: Arc<Semaphore>,
    most: usize,
    queued: AtomicUsize,
}

/// A call that waits for its turn. Dropping it counts it no more.
struct Queued<'a>(&'a AtomicUsize);

impl Turns {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            free: Arc::new(Semaphore::new(most)),
            most,
            queued: AtomicUsize::new(0),
        }
    }

    /// A turn, unless none is free before `deadline`.
    pub(crate) async fn take(&self, deadline: Instant) -> Option<OwnedSemaphorePermit> {
        self.queued.fetch_add(1, Relaxed);
        let _queued = Queued(&self.queued);
        let turn = timeout_at(deadline, Arc::clone(&self.free).acquire_owned()).await;
        turn.ok()?.ok()
    }

    pub(crate) fn most(&self) -> usize {
        self.most
    }

    pub(crate) fn taken(&self) -> usize {
        self.most - self.free.available_permits()
    }

    /// How many calls wait for a turn.
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
    async fn turns_and_calls_that_wait_for_one_are_counted() {
        let turns = Turns::new(1);
        let soon = || Instant::now() + Duration::from_secs(1);
        let turn = turns.take(soon()).await.unwrap();
        assert_eq!((turns.taken(), turns.queued()), (1, 0));
        let waiting = turns.take(soon());
        tokio::pin!(waiting);
        assert!(timeout(Duration::ZERO, waiting.as_mut()).await.is_err());
        assert_eq!(turns.queued(), 1);
        assert!(waiting.await.is_none());
        assert_eq!(turns.queued(), 0);
        drop(turn);
        assert_eq!(turns.taken(), 0);
    }
}
