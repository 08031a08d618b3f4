//! The batches that lanes take.

use std::collections::BTreeMap;
use std::time::Duration;

use lockhouse_core::{Ask, Command, Saved, SemaphoreName};
use tokio::time::Instant;

use super::super::lane::Lane;
use super::super::queue::{LaneKind, Queued, Taken};
use super::super::reply_to::ReplyTo;
use super::super::waiting::WaitingLine;
use super::{EngineState, MARGIN};

/// A batch is in the database's own lock queue for at most so long.
const LOCK_WAIT: Duration = Duration::from_secs(1);

impl EngineState {
    /// The batch of the next lane, if a lane is free and a command is ready.
    pub(super) fn take(&mut self) -> Option<Lane> {
        let Self { queue, waiting, .. } = self;
        let mut taken = queue.take(|queued| admit(queued, waiting))?;
        let stands = stands(&mut taken, waiting);
        taken.commands.extend(stands);
        Some(Lane::new(taken, self.now))
    }

    /// A batch of the blocked commands that touch the locked semaphore `name` alone and wait for no other row. It always
    /// reads the semaphore too, since a release of an ended request does not.
    pub(in crate::engine) fn take_for(&mut self, name: SemaphoreName) -> Lane {
        // A call whose deadline came meanwhile would not learn that its row is locked.
        let in_time = self.now + MARGIN + LOCK_WAIT;
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
        let stands = stands(&mut taken, &mut self.waiting);
        taken.commands.extend(stands);
        // It keeps no semaphore busy: while it waits, all commands on this one are blocked.
        taken.semaphores.clear();
        let looks_at_it = |queued: &Queued| matches!(&queued.command, Command::Stand { name: its, .. } if *its == name);
        // A release of a request that is over does not need the semaphore.
        if !taken.commands.iter().any(looks_at_it) {
            let look = Command::look(name);
            let queued = Queued::new(look, Vec::new(), Vec::new(), ReplyTo::Engine);
            taken.commands.push(queued);
        }
        Lane::new(taken, self.now)
    }
}

/// A `Stand` command for each taken semaphore that has waiters, or on which this batch may leave an ask that waits for
/// several semaphores. These come last in the batch, which loads the rows anyway. A `Stand` that
/// was queued alone moves to the end too, and keeps its `saved`.
fn stands(taken: &mut Taken, waiting: &mut WaitingLine) -> Vec<Queued> {
    // Without the rows, this process would not know which of them are keyed.
    let now = waiting.now();
    let asks = taken.commands.iter();
    let asks = asks.filter_map(|queued| may_wait_for_several(queued, now));
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
    let stands = stands.into_iter().map(|(name, saved)| {
        let stand = waiting.stand(&name, saved);
        let command = Command::Stand { name, stand };
        Queued::new(command, Vec::new(), Vec::new(), ReplyTo::Engine)
    });
    stands.collect()
}

/// The ask of a command for several semaphores that goes on waiting if it is refused `now`.
fn may_wait_for_several(queued: &Queued, now: Instant) -> Option<&Ask> {
    let ask = queued
        .command
        .ask()
        .filter(|_| queued.reply_to.waits(now))?;
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
