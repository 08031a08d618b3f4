//! The state of the engine: queued and blocked commands, and waiters. It does no I/O.

use std::collections::BTreeMap;
use std::time::Duration;

use lockhouse_core::{
    Ask, Cause, Command, Footprint, PlaceInLine, ProcessId, Saved, SemaphoreName,
};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::Span;

use super::blocked::Blocked;
use super::lane::Lane;
use super::publication::Publisher;
use super::queue::{LaneKind, Queue, Queued, Taken, Touches};
use super::reply_to::{Answer, Caller, ReplyTo};
use super::waiting::{Wait, WaitingLine};
use crate::Error;

/// How many commands may be queued or blocked.
const MOST: usize = 50_000;

/// How long before its deadline a call gets the error that its row is locked.
const MARGIN: Duration = Duration::from_millis(200);

/// A batch is in the database's own lock queue for at most so long.
const LOCK_WAIT: Duration = Duration::from_secs(1);

/// Queued and blocked commands, and waiters. One mutex guards all of them, since they move from one
/// to the other.
#[derive(Debug)]
pub(super) struct State {
    pub(super) queue: Queue,
    pub(super) blocked: Blocked,
    pub(super) waiting: WaitingLine,
    /// Publishes the waiters to other processes.
    pub(super) publisher: Publisher,
    /// Whether the poller runs.
    pub(super) has_poller: bool,
    /// Whether a task polls the rows that are locked.
    pub(super) has_lock_poller: bool,
}

impl State {
    /// An empty state, for transactions of at most `batch` commands.
    pub(super) fn new(batch: usize) -> Self {
        Self {
            queue: Queue::new(batch),
            blocked: Blocked::default(),
            waiting: WaitingLine::new(ProcessId::new(fastrand::u64(1..))),
            publisher: Publisher::default(),
            has_poller: false,
            has_lock_poller: false,
        }
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

    /// The batch of the next lane, if a lane is free and a command is ready.
    pub(super) fn take(&mut self) -> Option<Lane> {
        let Self { queue, waiting, .. } = self;
        let mut taken = queue.take(|queued| admit(queued, waiting))?;
        let looks = looks(&mut taken, waiting);
        taken.commands.extend(looks);
        Some(Lane::new(taken))
    }

    /// A batch of the blocked commands that touch the locked semaphore `name` alone and wait for no
    /// other row. Without any, it looks at the semaphore.
    pub(super) fn take_for(&mut self, name: SemaphoreName) -> Lane {
        // A call whose deadline came meanwhile would not learn that its row is locked.
        let in_time = Instant::now() + MARGIN + LOCK_WAIT;
        let may_wait = |queued: &Queued| queued.reply_to.deadline().is_none_or(|at| at > in_time);
        let mut commands = self.blocked.take_for(&name, self.queue.batch(), may_wait);
        for queued in &commands {
            if let ReplyTo::Waiter(place) = &queued.reply_to {
                self.waiting.unlock(*place);
            }
            self.waiting.expect(&queued.frees);
        }
        let waiting = &mut self.waiting;
        commands.retain_mut(|queued| admit(queued, waiting));
        let mut taken = Taken {
            kind: LaneKind::Locked,
            commands,
            semaphores: [name.clone()].into(),
        };
        let looks = looks(&mut taken, &mut self.waiting);
        taken.commands.extend(looks);
        // It keeps no semaphore busy: while it waits, all commands on this one are blocked.
        taken.semaphores.clear();
        let looks_at_it = |queued: &Queued| matches!(&queued.command, Command::Stand { name: its, .. } if *its == name);
        // A release of a request that is over does not need the semaphore.
        if !taken.commands.iter().any(looks_at_it) {
            let look = Command::look(name);
            let queued = Queued::new(look, Vec::new(), Vec::new(), ReplyTo::Engine);
            taken.commands.push(queued);
        }
        Lane::new(taken)
    }

    /// Queues this process's entry in the lines of the semaphores where a batch is due for the entry
    /// alone.
    pub(super) fn save_due(&mut self, now: Instant) {
        self.waiting.look_where_others_were_first(now);
        for (name, saved) in self.waiting.due_to_save(now) {
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

    /// Queues `queued`, or blocks it if a row that it needs is locked.
    fn push(&mut self, mut queued: Queued) {
        if self.blocked.concerns(&queued) {
            queued.sequence = self.queue.sequence();
            match &queued.reply_to {
                // The engine sends it again later.
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

    /// Records that of the rows `looked_at` only `locked` are still locked, and queues the commands
    /// that need none of those.
    pub(super) fn unlock(&mut self, looked_at: &Footprint, locked: &Footprint) {
        let free = self.blocked.unlock(looked_at, locked);
        self.put_back(free);
        self.call();
    }

    /// Records that the engine got `name` in the database's own lock queue, and queues the commands
    /// that need no other locked row.
    pub(super) fn unlock_in_turn(&mut self, name: SemaphoreName) {
        let free = self.blocked.unlock_in_turn(name);
        self.put_back(free);
        self.call();
    }

    /// Whether the task that polls locked rows is to end, since none is known. Another may then begin.
    pub(super) fn ends_lock_poller(&mut self) -> bool {
        self.has_lock_poller = !self.blocked.is_empty();
        !self.has_lock_poller
    }

    /// Takes out the blocked commands whose deadline has come, and those that nobody waits for.
    pub(super) fn give_up(&mut self, now: Instant) -> Vec<Queued> {
        let waiting = &self.waiting;
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
    pub(super) fn block_on(&mut self, queued: Queued, rows: &Footprint) {
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

/// A `Stand` command for each taken semaphore that has waiters, or may have one after this batch that
/// also waits for others. These come last in the batch, which loads the rows anyway. A `Stand` that
/// was queued alone moves to the end too, and keeps its `saved`.
fn looks(taken: &mut Taken, waiting: &mut WaitingLine) -> Vec<Queued> {
    // Without the rows, this process would not know which of them are keyed.
    let asks = taken.commands.iter().filter_map(may_wait_for_several);
    let may_be_keyed = asks.flat_map(|ask| ask.permits().map(|(name, _)| name));
    let waited_for = taken.semaphores.iter().filter(|name| waiting.on(name) > 0);
    // Iterate in a fixed order, so that a simulated run can be repeated.
    let mut stands: BTreeMap<_, _> = waited_for
        .chain(may_be_keyed)
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
    let looks = stands.into_iter().map(|(name, saved)| {
        let stand = waiting.stand(&name, saved);
        let look = Command::Stand { name, stand };
        Queued::new(look, Vec::new(), Vec::new(), ReplyTo::Engine)
    });
    looks.collect()
}

/// The ask of a command that waits for several semaphores if it is refused.
fn may_wait_for_several(queued: &Queued) -> Option<&Ask> {
    let ask = queued.command.ask().filter(|_| queued.reply_to.waits())?;
    (ask.permits().len() > 1).then_some(ask)
}

/// Sets the turn of a command that a lane takes. Returns false if its caller has gone away.
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

#[cfg(test)]
mod tests;
