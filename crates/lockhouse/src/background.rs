//! What goes on after its caller has let go: giving back what was dropped.

use std::sync::Arc;
use std::time::Duration;

use lockhouse_core::Owner;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::Lockhouse;

/// A little longer than any call takes.
const PATIENCE: Duration = Duration::from_secs(11);

/// What a client and its clones have going on in the background.
#[derive(Clone, Debug, Default)]
pub(crate) struct Background(Arc<watch::Sender<Counts>>);

#[derive(Clone, Debug, Default)]
struct Counts {
    under_way: usize,
    failed: usize,
    /// Owners whose goodbye is under way.
    leaving: Vec<Owner>,
}

/// One that is under way, until this is dropped; be it that its runtime ends.
struct UnderWay {
    counts: Arc<watch::Sender<Counts>>,
    leaving: Option<Owner>,
    done: bool,
}

impl Background {
    /// Has `runtime` go on with `task`, which says whether it did what it should.
    pub(crate) fn go_on(
        &self,
        runtime: &Handle,
        task: impl Future<Output = bool> + Send + 'static,
    ) {
        self.begin(runtime, None, task);
    }

    /// The same for the goodbye of `owner`.
    pub(crate) fn say_goodbye(
        &self,
        runtime: &Handle,
        owner: Owner,
        task: impl Future<Output = bool> + Send + 'static,
    ) {
        self.begin(runtime, Some(owner), task);
    }

    /// Waits until no goodbye of `owner` is under way: it would end what comes after it too.
    pub(crate) async fn has_left(&self, owner: &Owner) {
        let mut counts = self.0.subscribe();
        let left = counts.wait_for(|counts| !counts.leaving.contains(owner));
        // The sender is in `self`; only the time can run out.
        let _ = timeout(PATIENCE, left).await;
    }

    fn begin(
        &self,
        runtime: &Handle,
        leaving: Option<Owner>,
        task: impl Future<Output = bool> + Send + 'static,
    ) {
        self.0.send_modify(|counts| {
            counts.under_way += 1;
            counts.leaving.extend(leaving.clone());
        });
        let mut under_way = UnderWay {
            counts: Arc::clone(&self.0),
            leaving,
            done: false,
        };
        runtime.spawn(async move {
            let under_way = &mut under_way;
            under_way.done = task.await;
        });
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.counts.send_modify(|counts| {
            counts.under_way -= 1;
            counts.failed += usize::from(!self.done);
            let left = self.leaving.as_ref();
            let left = left.and_then(|left| counts.leaving.iter().position(|it| it == left));
            if let Some(left) = left {
                counts.leaving.swap_remove(left);
            }
        });
    }
}

impl Lockhouse {
    /// Waits until what was dropped is given back: permits, sessions, and asks that were given up
    /// on, of this client and its clones. How many could not be, as the store did not answer; their
    /// time to live ends those that have one. It takes 11 s at most, and no time if there is
    /// nothing.
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
        let mut counts = self.background().0.subscribe();
        let idle = counts.wait_for(|counts| counts.under_way == 0);
        // The sender is in `self`; only the time can run out.
        let _ = timeout(PATIENCE, idle).await;
        let counts = self.background().0.borrow();
        counts.under_way + counts.failed
    }
}
