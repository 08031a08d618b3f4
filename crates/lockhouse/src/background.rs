//! What goes on after its caller has let go: giving back what was dropped.

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

/// A little longer than any call takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(11);

/// What a client and its clones have going on in the background.
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
    /// How much could not be given back at once, and is tried again.
    overdue: usize,
}

/// An owner who says goodbye, until this is dropped; be it that its runtime ends.
struct Leaving {
    counts: Arc<watch::Sender<Counts>>,
    owner: Owner,
    done: bool,
}

impl Background {
    /// A release of permits of `semaphores` begins, and is under way until the answer is dropped.
    pub(crate) fn release_begins(
        &self,
        semaphores: impl IntoIterator<Item = SemaphoreName>,
    ) -> UnderWay {
        self.returning.begin(semaphores)
    }

    /// Waits until the releases of permits of `semaphores` that began before are answered, for
    /// 0.4 s at most.
    pub(crate) async fn releases_settle<'a>(
        &self,
        semaphores: impl IntoIterator<Item = &'a SemaphoreName>,
    ) {
        self.returning.settle(semaphores).await;
    }

    /// Has `runtime` give back what was dropped; under an id that nobody else knows again and again for as
    /// long as the store does not answer, since a session may keep it for as long as that goes on.
    ///
    /// The receiver gets a message when it is given back. It is disconnected without one if it is not
    /// tried again, or the runtime has ended.
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

    /// Has `runtime` go on with the goodbye of `owner`, which says whether it was said.
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

    /// Waits until no goodbye of `owner` is under way: it would end what comes after it too.
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
    /// Waits until what was dropped is given back: permits, sessions, and asks that were given up
    /// on, of this client and its clones. How many could not be, as the store did not answer: those with
    /// ids of the library's own are tried again for as long as their runtime goes on, and their time to live
    /// ends those that have one.
    /// It takes 11 s at most, and no time if there is nothing.
    ///
    /// Waiters of this process that gave up are also taken out of the line that other processes see. Otherwise those
    /// would leave the next free permit to this process for up to 700 ms.
    ///
    /// Call it last in a program that drops permits, before its runtime ends: that would break off
    /// what is under way. What is still held is none of its business: drop or release that first.
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
