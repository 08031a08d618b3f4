//! Background work of a client: releasing dropped permits and sessions.

mod debt;
mod returning;

use std::sync::{Arc, mpsc};
use std::time::Duration;

use lockhouse_core::{Owner, SemaphoreName};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::Lockhouse;
use debt::Debt;
pub(crate) use debt::Dropped;
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

#[derive(Clone, Debug, Default)]
struct Counts {
    under_way: usize,
    failed: usize,
    /// Owners whose goodbye is under way.
    leaving: Vec<Owner>,
    /// How many releases failed and are being retried.
    overdue: usize,
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
        lockhouse: &Lockhouse,
        runtime: &Handle,
        dropped: Dropped,
    ) -> mpsc::Receiver<()> {
        let (paid, is_paid) = mpsc::channel();
        let debt = Debt::of(&self.counts, paid);
        runtime.spawn(debt.pay(lockhouse.clone(), dropped));
        is_paid
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

impl Lockhouse {
    /// Has the calls that wait in this process keep their places in the line: a caller that asks again at another process
    /// within 15 s, with the same id and the same ask, stands where it stood here.
    ///
    /// A server calls it before it ends the waiting calls of its callers. It takes at most a second. If the store cannot
    /// write in that time, the waiters get new places. Waiters that begin to wait after it do too.
    pub async fn hand_over_waiters(&self) {
        self.backend().hand_over_waiters().await;
    }

    /// Waits until all that this client and its clones dropped is given back: permits, sessions, and requests whose
    /// future was dropped. It takes at most 11 s, and no time if there is nothing to give back.
    ///
    /// Returns how many could not be given back because the store did not answer. Those with fresh ids are retried until
    /// the runtime ends; a TTL ends those that have one.
    ///
    /// It also takes waiters of this process that gave up out of the line, so that other processes do not leave the next
    /// free permit to this one for up to 700 ms.
    ///
    /// Call it at the end of a program that drops permits, before the runtime ends, since that aborts releases. It does
    /// not release permits that are still held: drop or release them first.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lockhouse::Error> {
    /// # let lockhouse = lockhouse::Lockhouse::connect("memory:").await?;
    /// lockhouse.define("backup-slots", 10).await?;
    /// let permit = lockhouse.semaphore("backup-slots").acquire().await?;
    /// drop(permit);
    /// assert_eq!(lockhouse.close().await, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn close(self) -> usize {
        self.backend().leave_lines().await;
        let mut counts = self.background().counts.subscribe();
        let idle = counts.wait_for(|counts| counts.under_way == 0);
        // The sender is in `self`; only the time can run out.
        let _ = timeout(PATIENCE, idle).await;
        let counts = self.background().counts.borrow();
        counts.under_way + counts.failed + counts.overdue
    }
}
