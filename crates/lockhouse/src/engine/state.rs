//! The state of the engine: queued and blocked commands, and waiters. It does no I/O, and its clock is set from outside.
//!
//! As soon as a command that releases permits is queued, the next [waiters](super::waiting) are called and queued right
//! behind it. So the batch that releases also grants, in one commit. Commands that need a row which another transaction
//! keeps locked are [blocked](super::blocked).

mod batches;
mod locked;
mod polls;

use std::time::Duration;

use lockhouse_core::{Command, Footprint, PlaceInLine, ProcessId, Saved, SemaphoreName};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::Span;

use super::blocked::Blocked;
use super::effect::Effect;
use super::publication::PublishedLists;
use super::queue::{Queue, Queued, Touches};
use super::reply_to::{Answer, Caller, ReplyTo};
use super::waiting::{Wait, WaitingCall, WaitingLine};
use crate::Error;

/// How many commands may be queued or blocked.
const MOST: usize = 50_000;

/// How long before its deadline a call gets the error that its row is locked.
const MARGIN: Duration = Duration::from_millis(200);

/// Queued and blocked commands, and waiters. One mutex guards all of them, since a call moves between them.
#[derive(Debug)]
pub(super) struct EngineState {
    /// The time of the event that is handled.
    now: Instant,
    pub(super) queue: Queue,
    pub(super) blocked: Blocked,
    pub(super) waiting: WaitingLine,
    /// The lists of waiters that this process publishes.
    pub(super) published: PublishedLists,
    /// Whether the poller runs.
    has_poller: bool,
    /// Whether a task polls the rows that are locked.
    has_lock_poller: bool,
}

impl EngineState {
    /// An empty state of `process`, for a store with batches of at most `batch` commands and with at most `connections` connections.
    pub(super) fn new(batch: usize, connections: usize, process: ProcessId, now: Instant) -> Self {
        Self {
            now,
            queue: Queue::new(batch),
            blocked: Blocked::new(connections, now),
            waiting: WaitingLine::new(process, now),
            published: PublishedLists::default(),
            has_poller: false,
            has_lock_poller: false,
        }
    }

    /// Sets the time of the next events.
    pub(super) fn at(&mut self, now: Instant) {
        self.now = now;
        self.blocked.at(now);
        self.waiting.at(now);
    }

    /// The effects that are due now. The effect of a task is not returned again until the task has reported its end.
    pub(super) fn effects(&mut self) -> Vec<Effect> {
        let mut effects = Vec::new();
        while let Some(lane) = self.take() {
            effects.push(Effect::RunLane(lane));
        }
        let is_news = self.waiting.take_news();
        if self.has_poller && is_news {
            effects.push(Effect::WakePoller);
        }
        if !self.has_poller && !self.waiting.is_empty() {
            self.has_poller = true;
            effects.push(Effect::Poll);
        }
        if !self.has_lock_poller && !self.blocked.is_empty() {
            self.has_lock_poller = true;
            effects.push(Effect::PollLockedRows);
        }
        while let Some(wait) = self.blocked.next_wait() {
            effects.push(Effect::WaitInLockQueue(wait));
        }
        effects.extend(self.published.next_to_write().map(Effect::Publish));
        effects
    }

    /// Queues a call, and the waiters that may be served by what it releases. Returns the place in
    /// the line of an ask that may wait.
    ///
    /// # Errors
    /// [`Error::Overloaded`] if too many commands are queued.
    pub(super) fn enqueue(
        &mut self,
        command: Command,
        touches: Touches,
        wait: Wait,
        deadline: Instant,
        answer: oneshot::Sender<Answer>,
    ) -> Result<Option<PlaceInLine>, Error> {
        if self.queue.len() + self.blocked.len() >= MOST {
            return Err(Error::Overloaded);
        }
        let ask = command.ask();
        let ticket = ask.map(|ask| self.waiting.ticket(ask, wait));
        let waits = ticket.as_ref().filter(|_| wait != Wait::No);
        let place = waits.map(|ticket| ticket.place);
        let caller = Caller {
            ticket,
            answer,
            deadline,
            span: Span::current(),
        };
        let Touches { semaphores, frees } = touches;
        self.push(Queued::new(
            command,
            semaphores,
            frees,
            ReplyTo::Caller(caller),
        ));
        self.call();
        Ok(place)
    }

    /// Takes a waiter out of its lines, and calls those behind it. Returns `None` if it is being served, or was.
    pub(super) fn leave(&mut self, place: PlaceInLine) -> Option<WaitingCall> {
        let waiter = self.waiting.leave(place)?;
        self.call();
        Some(waiter)
    }

    /// Queues a `Stand` for each semaphore whose line needs this process's entry now, without another batch.
    pub(super) fn save_due(&mut self) {
        self.waiting.look_where_others_were_first();
        for (name, saved) in self.waiting.due_to_save() {
            self.push_stand(name, saved);
        }
        self.call();
    }

    /// Queues the waiters that may be served now.
    pub(super) fn call(&mut self) {
        loop {
            let called = self.waiting.call();
            if called.is_empty() {
                break;
            }
            for place in called {
                self.push_waiter(place);
            }
        }
        for name in self.waiting.deregistrations() {
            self.push_stand(name, Saved::Always);
        }
    }

    fn push_stand(&mut self, name: SemaphoreName, saved: Saved) {
        let stand = self.waiting.stand(&name, saved);
        let touches = vec![name.clone()];
        let command = Command::Stand { name, stand };
        self.push(Queued::new(command, touches, Vec::new(), ReplyTo::Engine));
    }

    fn push_waiter(&mut self, place: PlaceInLine) {
        let Some(waiter) = self.waiting.get(place) else {
            return;
        };
        let touches = waiter.ask.permits().map(|(name, _)| name.clone());
        let touches = touches.collect();
        let command = Command::acquire(waiter.ask.clone());
        self.push(Queued::new(
            command,
            touches,
            Vec::new(),
            ReplyTo::Waiter(place),
        ));
    }

    /// Queues `queued`, or blocks it if a row that it needs is locked. A command of the engine is dropped then, as the
    /// engine sends it again later.
    fn push(&mut self, mut queued: Queued) {
        if self.blocked.concerns(&queued) {
            queued.sequence = self.queue.sequence();
            match &queued.reply_to {
                ReplyTo::Engine => return,
                ReplyTo::Waiter(place) => self.waiting.lock(*place),
                ReplyTo::Caller(_) => {}
            }
            self.blocked.add(queued, &Footprint::default());
            return;
        }
        self.waiting.expect(&queued.frees);
        self.queue.push(queued);
    }
}

#[cfg(test)]
mod tests;
