//! Background work of a client: releasing dropped permits and sessions.

mod counts;
mod release;
mod returning;

use std::sync::{Arc, mpsc};
use std::time::Duration;

use lockhouse_core::{Owner, SemaphoreName};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::backend::Backend;
use counts::Counts;
use release::BackgroundRelease;
pub(crate) use release::Dropped;
use returning::Returning;
pub(crate) use returning::UnderWay;

/// A little longer than any call to a store takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(11);

/// The background work of a client and its clones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Background {
    counts: Arc<watch::Sender<Counts>>,
    returning: Arc<Returning>,
}

/// A goodbye under way. It ends when this is dropped, also when its runtime ends.
struct Leaving {
    counts: Arc<watch::Sender<Counts>>,
    owner: Owner,
    done: bool,
}

impl Background {
    /// Records that a release of permits of `semaphores` begins. It is under way until the result
    /// is dropped.
    pub(crate) fn release_begins(
        &self,
        semaphores: impl IntoIterator<Item = SemaphoreName>,
    ) -> UnderWay {
        self.returning.begin(semaphores)
    }

    /// Waits, for at most 0.4 s, until the releases of permits of `semaphores` that began before
    /// this call are answered.
    pub(crate) async fn releases_settle<'a>(
        &self,
        semaphores: impl IntoIterator<Item = &'a SemaphoreName>,
    ) {
        self.returning.settle(semaphores).await;
    }

    /// Releases a dropped request on `runtime`. A request with a generated id is retried while the
    /// store does not answer, since a session could otherwise keep it for as long as the session
    /// goes on.
    ///
    /// The receiver gets a message when the request is released. It is disconnected without a
    /// message if the release failed and is not retried, or if the runtime has ended.
    pub(crate) fn give_back(
        &self,
        backend: &Backend,
        runtime: &Handle,
        dropped: Dropped,
    ) -> mpsc::Receiver<()> {
        let (released, is_released) = mpsc::channel();
        let release = BackgroundRelease::begin(&self.counts, released);
        runtime.spawn(release.run(backend.clone(), dropped));
        is_released
    }

    /// Runs `goodbye`, the goodbye of `owner`, on `runtime`. It returns whether it succeeded.
    pub(crate) fn say_goodbye(
        &self,
        runtime: &Handle,
        owner: Owner,
        goodbye: impl Future<Output = bool> + Send + 'static,
    ) {
        self.counts.send_modify(|counts| {
            counts.under_way += 1;
            counts.leaving.push(owner.clone());
        });
        let mut leaving = Leaving {
            counts: Arc::clone(&self.counts),
            owner,
            done: false,
        };
        runtime.spawn(async move {
            let leaving = &mut leaving;
            leaving.done = goodbye.await;
        });
    }

    /// Waits until no goodbye of `owner` is under way, since it would also end requests that are
    /// granted after this.
    pub(crate) async fn has_left(&self, owner: &Owner) {
        let mut counts = self.counts.subscribe();
        let left = counts.wait_for(|counts| !counts.leaving.contains(owner));
        // The sender is in `self`; only the time can run out.
        let _ = timeout(PATIENCE, left).await;
    }

    /// Waits until nothing is under way, for at most 11 s. Returns how many could not be given
    /// back.
    pub(crate) async fn settle(&self) -> usize {
        let mut counts = self.counts.subscribe();
        let idle = counts.wait_for(|counts| counts.under_way == 0);
        // The sender is in `self`; only the time can run out.
        let _ = timeout(PATIENCE, idle).await;
        let counts = self.counts.borrow();
        counts.under_way + counts.failed + counts.overdue
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.counts.send_modify(|counts| {
            counts.under_way -= 1;
            counts.failed += usize::from(!self.done);
            let mut leaving = counts.leaving.iter();
            if let Some(left) = leaving.position(|owner| *owner == self.owner) {
                counts.leaving.swap_remove(left);
            }
        });
    }
}
