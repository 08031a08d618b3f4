//! The state of the engine, without I/O: commands that are queued or blocked, and calls that wait.
//!
//! A change may lead to [events](Event); the [driver](super::driver) performs them. One lock guards all of it, as commands
//! move from one part to the other.
//!
//! [Waiters](super::waiting) are called as soon as a command is queued that gives permits back, and are queued right behind
//! it: so the batch that releases also grants, in one commit.

use std::collections::BTreeMap;
use std::mem;
use std::time::Duration;

use lockhouse_core::store::{Error as StoreError, Kind};
use lockhouse_core::{Cause, Command, Footprint, Place, ProcessId, Refusal, Saved, SemaphoreName};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::apply::apply_outcomes;
use super::blocked::Blocked;
use super::grant_cache::GrantCache;
use super::lane::{Decided, TakenOut};
use super::publisher::Publisher;
use super::queue::{Queue, Queued, Taken, Touches};
use super::reply_to::{Answer, Caller, ReplyTo, Response};
use super::waiting::{Wait, WaitingLine};

/// How many commands may be queued or blocked.
const MOST: usize = 50_000;

/// A call whose row is locked is answered so long before its deadline.
const MARGIN: Duration = Duration::from_millis(200);

/// See the head of this file.
#[derive(Debug)]
pub(super) struct State {
    pub(super) queue: Queue,
    pub(super) blocked: Blocked,
    pub(super) waiting: WaitingLine,
    pub(super) publisher: Publisher,
    /// Whether a task polls for what other processes do.
    pub(super) has_poller: bool,
    /// Whether a task polls the rows that are locked.
    pub(super) has_lock_poller: bool,
    /// Answers that are not sent yet.
    responses: Vec<Response>,
}

/// Something to do outside of the state.
#[derive(Debug)]
pub(super) enum Event {
    /// Send these answers.
    Respond(Vec<Response>),
    /// Have the store decide a batch. It `looks_first` for locked rows, as some are known.
    Run { taken: Taken, looks_first: bool },
    /// Poll the rows that are locked.
    PollLockedRows,
}

impl State {
    /// The state of a process on a store whose transactions take at most `batch` commands.
    pub(super) fn new(process: ProcessId, batch: usize) -> Self {
        Self {
            queue: Queue::new(batch),
            blocked: Blocked::default(),
            waiting: WaitingLine::new(process),
            publisher: Publisher::default(),
            has_poller: false,
            has_lock_poller: false,
            responses: Vec::new(),
        }
    }

    /// The next event, until there is none. Where no task `can_run`, only answers are sent.
    pub(super) fn next_event(&mut self, can_run: bool) -> Option<Event> {
        if !self.responses.is_empty() {
            return Some(Event::Respond(mem::take(&mut self.responses)));
        }
        if !can_run {
            return None;
        }
        if let Some(taken) = self.take_batch() {
            let looks_first = !self.blocked.is_empty();
            return Some(Event::Run { taken, looks_first });
        }
        if !self.blocked.is_empty() && !self.has_lock_poller {
            self.has_lock_poller = true;
            return Some(Event::PollLockedRows);
        }
        None
    }

    /// Queues a call; false if too many are queued.
    pub(super) fn push_call(
        &mut self,
        command: Command,
        touches: Touches,
        wait: Wait,
        deadline: Instant,
        answer: oneshot::Sender<Answer>,
    ) -> bool {
        if self.queue.len() + self.blocked.len() >= MOST {
            return false;
        }
        let ask = command.ask();
        let ticket = ask.map(|ask| self.waiting.ticket(ask, wait));
        let caller = Caller {
            ticket,
            answer,
            deadline,
        };
        let Touches { semaphores, frees } = touches;
        let reply_to = ReplyTo::Caller(caller);
        self.push(Queued::new(command, semaphores, frees, reply_to));
        true
    }

    /// Queues the waiters that may go now, and what is to be saved of semaphores that nobody waits for any more.
    pub(super) fn call_waiters(&mut self) {
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

    /// Queues what is to be saved of this process's waiters for its own sake.
    pub(super) fn push_registrations(&mut self, now: Instant) {
        self.waiting.look_where_others_were_first(now);
        for (name, saved) in self.waiting.due_to_save(now) {
            self.push_stand(name, saved);
        }
    }

    /// Applies the outcomes of a batch, and queues the waiters that may go by them.
    pub(super) fn apply(&mut self, decided: Vec<Decided>, grants: &GrantCache) {
        let responses = apply_outcomes(&mut self.waiting, grants, decided);
        self.responses.extend(responses);
        self.call_waiters();
    }

    /// Takes a waiter out of its lines, and says why it was not granted; None if it is being served, or was.
    pub(super) fn leave(&mut self, place: Place) -> Option<Refusal> {
        Some(self.waiting.leave(place)?.refused)
    }

    /// A lane met locked rows: blocks the commands that it took out, and frees the semaphores that it no longer has.
    pub(super) fn block_all(&mut self, taken_out: TakenOut) {
        for (queued, locked) in taken_out.commands {
            self.lock(&locked);
            self.block(queued, &locked);
        }
        self.queue.free(&taken_out.freed);
    }

    /// Of the rows of `looked_at`, only `locked` still are: commands that need none of them are queued again, by their
    /// sequence numbers.
    pub(super) fn unlock(&mut self, looked_at: &Footprint, locked: &Footprint) {
        for queued in self.blocked.unlock(looked_at, locked) {
            if let ReplyTo::Waiter(place) = &queued.reply_to {
                self.waiting.unlock(*place);
            }
            self.waiting.expect(&queued.frees);
            self.queue.put(queued);
        }
    }

    /// Answers the blocked calls whose time is up, and forgets those whose callers went away.
    pub(super) fn give_up_blocked(&mut self, now: Instant) {
        let waiting = &self.waiting;
        let is_over = |queued: &Queued| match &queued.reply_to {
            ReplyTo::Caller(caller) => {
                caller.answer.is_closed()
                    || caller.deadline <= now + MARGIN
                    || is_found_again(&queued.command)
            }
            ReplyTo::Waiter(place) => waiting.get(*place).is_none(),
            ReplyTo::Engine => true,
        };
        for queued in self.blocked.give_up(is_over) {
            let message = "a row that it needs is locked by another transaction of the database";
            let error = StoreError::new(Kind::Locked, message);
            if let ReplyTo::Caller(caller) = queued.reply_to {
                let answer = Answer::Decided(Err(error));
                self.responses.push(Response::Caller(caller.answer, answer));
            }
        }
    }

    fn push_stand(&mut self, name: SemaphoreName, saved: Saved) {
        let stand = self.waiting.stand(&name, saved);
        let touches = vec![name.clone()];
        let command = Command::Stand { name, stand };
        self.push(Queued::new(command, touches, Vec::new(), ReplyTo::Engine));
    }

    fn push_waiter(&mut self, place: Place) {
        let Some(waiter) = self.waiting.get(place) else {
            return;
        };
        let touches = waiter.ask.permits().map(|(name, _)| name.clone());
        let touches = touches.collect();
        let command = Command::acquire(waiter.ask.clone());
        let reply_to = ReplyTo::Waiter(place);
        self.push(Queued::new(command, touches, Vec::new(), reply_to));
    }

    /// Queues `queued`, or blocks it if a row that it needs is locked.
    fn push(&mut self, mut queued: Queued) {
        if self.blocked.concerns(&queued) {
            queued.sequence = self.queue.next_sequence();
            if let ReplyTo::Waiter(place) = &queued.reply_to {
                self.waiting.lock(*place);
            }
            self.blocked.add(queued, &Footprint::default());
            return;
        }
        self.waiting.expect(&queued.frees);
        self.queue.push(queued);
    }

    /// Notes that `rows` are locked, and blocks the queued commands that need one of them.
    fn lock(&mut self, rows: &Footprint) {
        self.blocked.lock(rows);
        let blocked = &self.blocked;
        for queued in self.queue.remove_if(|queued| blocked.concerns(queued)) {
            self.block(queued, rows);
        }
    }

    /// Blocks `queued`, which was queued or in a lane, until those of the `rows` are free that it needs.
    fn block(&mut self, queued: Queued, rows: &Footprint) {
        self.waiting.expect_no_more(&queued.frees);
        match &queued.reply_to {
            // Its semaphore is looked at again with the next batch.
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

    /// The next batch, if a lane is free and a command may go.
    fn take_batch(&mut self) -> Option<Taken> {
        let Self { queue, waiting, .. } = self;
        let mut taken = queue.take(|queued| admit(queued, waiting))?;
        let stands = stands(&mut taken, waiting);
        taken.commands.extend(stands);
        Some(taken)
    }
}

/// A [`Command::Stand`] for each semaphore of the batch that callers wait for, to come last: those rows are loaded anyway.
/// One that was queued for its own sake, as `saved` says, comes last too.
fn stands(taken: &mut Taken, waiting: &mut WaitingLine) -> Vec<Queued> {
    // In one order, so that a run can be repeated.
    let waited_for = taken.semaphores.iter().filter(|name| waiting.on(name) > 0);
    let mut stands: BTreeMap<_, _> = waited_for
        .map(|name| (name.clone(), Saved::Along))
        .collect();
    let mut queued = taken.commands.extract_if(.., |queued| {
        matches!(
            (&queued.command, &queued.reply_to),
            (Command::Stand { .. }, ReplyTo::Engine)
        )
    });
    for queued in &mut queued {
        if let Command::Stand { name, stand } = queued.command {
            let saved = stands.entry(name).or_default();
            *saved = stand.saved.max(*saved);
        }
    }
    let stands = stands.into_iter().map(|(name, saved)| {
        let stand = waiting.stand(&name, saved);
        let command = Command::Stand { name, stand };
        Queued::new(command, Vec::new(), Vec::new(), ReplyTo::Engine)
    });
    stands.collect()
}

/// Gives a command that is taken its turn; whether it still goes.
fn admit(queued: &mut Queued, waiting: &mut WaitingLine) -> bool {
    let turn = match &queued.reply_to {
        ReplyTo::Caller(caller) if caller.answer.is_closed() => {
            waiting.expect_no_more(&queued.frees);
            return false;
        }
        ReplyTo::Caller(caller) => match (queued.command.ask(), &caller.ticket) {
            (Some(ask), Some(ticket)) => waiting.turn(ask, ticket),
            _ => return true,
        },
        ReplyTo::Waiter(place) => match waiting.take(*place) {
            Some(turn) => turn,
            None => return false,
        },
        ReplyTo::Engine => return true,
    };
    if let Command::Acquire { turn: its, .. } = &mut queued.command {
        *its = turn;
    }
    true
}

/// Whether a sweep asks for it, which finds it again the next time.
fn is_found_again(command: &Command) -> bool {
    let Command::End { cause, .. } = command else {
        return false;
    };
    matches!(
        cause,
        Cause::Expired | Cause::OwnerSilent { .. } | Cause::Stale { .. }
    )
}
