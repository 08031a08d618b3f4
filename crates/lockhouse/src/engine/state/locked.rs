//! Commands that need a locked row: when they are blocked, and when they are queued again.

use lockhouse_core::{Cause, Command, Footprint, SemaphoreName};

use super::super::queue::Queued;
use super::super::reply_to::ReplyTo;
use super::{EngineState, MARGIN};

impl EngineState {
    /// Records that of the rows `looked_at` only `locked` are still locked, and queues the commands
    /// that need none of those.
    pub(in crate::engine) fn unlock(&mut self, looked_at: &Footprint, locked: &Footprint) {
        let free = self.blocked.unlock(looked_at, locked);
        self.put_back(free);
        self.call();
    }

    /// Records that the engine got `name` in the database's own lock queue, and queues the commands
    /// that need no other locked row.
    pub(in crate::engine) fn unlock_in_turn(&mut self, name: SemaphoreName) {
        let free = self.blocked.unlock_in_turn(name);
        self.put_back(free);
        self.call();
    }

    /// Whether the task that polls locked rows is to end, since none is known. Another may then begin.
    pub(in crate::engine) fn ends_lock_poller(&mut self) -> bool {
        self.has_lock_poller = !self.blocked.is_empty();
        !self.has_lock_poller
    }

    /// Records that the task that polls locked rows was dropped, with its runtime. Another may begin.
    pub(in crate::engine) fn lock_poller_was_dropped(&mut self) {
        self.has_lock_poller = false;
    }

    /// Takes out the blocked commands whose deadline has come, those that nobody waits for, and those of sweeps, which find
    /// the request again.
    pub(in crate::engine) fn give_up(&mut self) -> Vec<Queued> {
        let (waiting, now) = (&self.waiting, self.now);
        self.blocked.give_up(|queued| match &queued.reply_to {
            ReplyTo::Caller(caller) => {
                caller.answer.is_closed()
                    || caller.deadline <= now + MARGIN
                    || is_found_again(&queued.command)
            }
            ReplyTo::Waiter(place) => waiting.get(*place).is_none(),
            ReplyTo::Engine => true,
        })
    }

    /// Queues commands that were blocked, in the order of arrival.
    fn put_back(&mut self, queued: Vec<Queued>) {
        for queued in queued {
            if let ReplyTo::Waiter(place) = &queued.reply_to {
                self.waiting.unlock(*place);
            }
            self.waiting.expect(&queued.frees);
            self.queue.put(queued);
        }
    }

    /// Blocks `queued`, and records the `rows` that are locked.
    pub(in crate::engine) fn block_on(&mut self, queued: Queued, rows: &Footprint) {
        self.lock(rows);
        self.block(queued, rows);
    }

    /// Records that `rows` are locked, and blocks the queued commands that need one of them.
    fn lock(&mut self, rows: &Footprint) {
        self.blocked.lock(rows);
        let blocked = &self.blocked;
        for queued in self.queue.remove_if(|queued| blocked.concerns(queued)) {
            self.block(queued, rows);
        }
    }

    /// Blocks `queued`, which was queued or in a lane, until those of the `rows` that it needs are
    /// free.
    fn block(&mut self, queued: Queued, rows: &Footprint) {
        self.waiting.expect_no_more(&queued.frees);
        match &queued.reply_to {
            // The engine waits for no answer: the next batch on the semaphore has such a command
            // again.
            ReplyTo::Engine => return,
            ReplyTo::Waiter(place) => self.waiting.lock(*place),
            ReplyTo::Caller(_) => {}
        }
        let mut rows = rows.clone();
        if self.blocked.concerns(&queued) {
            rows.intersect(&queued.needs());
        }
        self.blocked.add(queued, &rows);
    }
}

/// Whether the command is from a sweep, which finds the request again the next time.
fn is_found_again(command: &Command) -> bool {
    let Command::End { cause, .. } = command else {
        return false;
    };
    matches!(
        cause,
        Cause::Expired | Cause::OwnerSilent { .. } | Cause::Stale { .. }
    )
}
