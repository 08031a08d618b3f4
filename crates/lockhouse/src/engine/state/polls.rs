//! The events and the times of the poller and the publisher.

use lockhouse_core::store::ShownWaiter;
use lockhouse_core::{Capacity, PlaceInLine, SemaphoreName, SemaphoreRow};
use tokio::time::Instant;

use super::super::grant_cache::GrantCache;
use super::super::publication::Publication;
use super::super::waiting::{Observed, PollPlan, WaitersElsewhere};
use super::EngineState;

impl EngineState {
    /// The next poll, after the poller has paused until `rests`. `None` ends the poller, since no call waits and no
    /// entry is left to remove; another may then begin.
    pub(in crate::engine) fn plan(
        &mut self,
        grants: &GrantCache,
        rests: Instant,
    ) -> Option<PollPlan> {
        self.has_poller = !self.waiting.is_empty();
        self.has_poller.then(|| self.waiting.plan(grants, rests))
    }

    /// Records what a poll read: the rows of `semaphores`, and that those of `missing` are not there.
    pub(in crate::engine) fn see_polled(
        &mut self,
        semaphores: &[SemaphoreRow],
        missing: &[SemaphoreName],
    ) {
        for semaphore in semaphores {
            self.waiting.see(semaphore, None, Observed::Unordered);
        }
        for name in missing {
            self.waiting.miss(name);
        }
        self.call();
    }

    /// Records the capacity with which a template would create each of these semaphores; `None` if it has no template.
    pub(in crate::engine) fn would_be_made(
        &mut self,
        semaphores: &[(SemaphoreName, Option<Capacity>)],
    ) {
        for (name, capacity) in semaphores {
            self.waiting.would_be_made(name, *capacity);
        }
        self.call();
    }

    /// Gives the waiters `new` the places that they had at other processes.
    pub(in crate::engine) fn resume(
        &mut self,
        new: Vec<PlaceInLine>,
        elsewhere: &WaitersElsewhere,
    ) {
        self.waiting.resume(new, elsewhere);
        self.call();
    }

    /// When the poller has something to do besides its next poll.
    pub(in crate::engine) fn next_of_poller(&self) -> Option<Instant> {
        let to_save = self.waiting.next_to_save();
        let to_publish = self.published.next();
        let newcomers = self.waiting.next_newcomers();
        [to_save, to_publish, newcomers].into_iter().flatten().min()
    }

    /// Records that the poller was dropped, with its runtime. Another may begin.
    pub(in crate::engine) fn poller_was_dropped(&mut self) {
        self.has_poller = false;
    }

    /// Has the lists of waiters written, if they are due.
    pub(in crate::engine) fn publish_waiters(&mut self) {
        self.published.publish(&self.waiting, self.now);
    }

    /// Records that the write of `lists` has ended. If the last waiter has left meanwhile, the lists are deleted: the
    /// poller, which would do that, has ended.
    pub(in crate::engine) fn end_write(&mut self, lists: Publication, is_written: bool) {
        self.published.end_write(lists, is_written);
        if self.waiting.is_empty() {
            self.publish_waiters();
        }
    }

    /// All waiters, for the last lists of a process that stops. From then on the lists do not change for a while.
    /// Returns `None` while a write is due or under way.
    pub(in crate::engine) fn last_lists(
        &mut self,
    ) -> Option<Vec<(SemaphoreName, Vec<ShownWaiter>)>> {
        self.published.last_lists(&self.waiting, self.now)
    }
}
