//! A lane: one batch of commands, until all are answered. It does no I/O: its [task](super::running_lane) sends the batch to
//! the store.
//!
//! If a lock wait times out, the lane sets aside the commands that need a locked row, to be
//! [blocked](super::blocked), and goes on with the rest at once. Asks with a wait, for which a plain
//! read finds no room, [stand in line](lacking) instead.

mod lacking;

use std::collections::HashSet;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use lockhouse_core::store::{Batch, Error as StoreError, Kind};
use lockhouse_core::{Ask, Command, Count, Footprint, Refusal, Reply, SemaphoreName, SemaphoreRow};
use tokio::time::Instant;
use tracing::Span;

use super::queue::{LaneKind, Queued, Sequence, Taken};
use super::reply_to::ReplyTo;
use super::retry;
use super::waiting::Answered;
pub(super) use lacking::{Lacking, lacks};

/// A batch on its way.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) kind: LaneKind,
    /// The semaphores of this lane. No other lane has them.
    pub(super) semaphores: HashSet<SemaphoreName>,
    pub(super) batch: Batch,
    /// When the batch was made: its waiting times are as of then.
    pub(super) made: Instant,
    /// Whether the batch has met a lock that the database could not name.
    has_met_unnamed: bool,
    /// The other parts of each queued command, in the order of the batch. Empty once they are answered.
    pending: Vec<Pending>,
}

/// One command of a batch, and its outcome.
#[derive(Debug)]
pub(super) struct Decided {
    pub(super) command: Command,
    pub(super) reply_to: ReplyTo,
    pub(super) frees: Vec<(SemaphoreName, Count)>,
    pub(super) answer: Answered,
}

/// The next step of a lane after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Try again soon, without the asks that lack room: the rows may be free again, or the lock has no name.
    StepAside,
    /// Set the commands aside that need one of the locked rows, and go on with the rest.
    Block,
    /// Try each command alone, so that only the faulty ones fail.
    OneByOne,
    /// Answer all callers with the error.
    Answer,
}

/// The commands that a lane does not wait for.
#[derive(Debug, Default)]
pub(super) struct SetAside {
    /// Asks that lack room. They are to stand in line, as if the store had refused them.
    pub(super) lacking: Vec<Decided>,
    /// The rows by which they do.
    pub(super) seen: Vec<SemaphoreRow>,
    /// Commands to block, each with rows that are locked.
    pub(super) blocked: Vec<(Queued, Footprint)>,
    /// Semaphores that no other command of the batch touches.
    pub(super) freed: HashSet<SemaphoreName>,
}

/// The parts of a [`Queued`] command that stay in the lane while the command itself is in the batch.
#[derive(Debug)]
struct Pending {
    sequence: Sequence,
    touches: Vec<SemaphoreName>,
    frees: Vec<(SemaphoreName, Count)>,
    reply_to: ReplyTo,
}

impl Pending {
    fn queued(self, command: Command) -> Queued {
        Queued {
            sequence: self.sequence,
            command,
            touches: self.touches,
            frees: self.frees,
            reply_to: self.reply_to,
        }
    }
}

impl Lane {
    /// A lane for what was `taken` from the queue `now`.
    pub(super) fn new(taken: Taken, now: Instant) -> Self {
        let Taken {
            kind,
            commands,
            semaphores,
        } = taken;
        let mut lane = Self {
            kind,
            semaphores,
            batch: batch(Vec::new(), &HashSet::new()),
            made: now,
            has_met_unnamed: false,
            pending: Vec::new(),
        };
        lane.fill(commands);
        lane
    }

    fn fill(&mut self, commands: Vec<Queued>) {
        let split = |queued: Queued| {
            let Queued {
                sequence,
                command,
                touches,
                frees,
                reply_to,
            } = queued;
            let pending = Pending {
                sequence,
                touches,
                frees,
                reply_to,
            };
            (command, pending)
        };
        let (commands, pending) = commands.into_iter().map(split).unzip();
        self.batch = batch(commands, &self.semaphores);
        self.pending = pending;
    }

    /// Takes all commands out of the batch.
    fn empty(&mut self) -> impl Iterator<Item = Queued> + use<> {
        let commands = mem::take(&mut self.batch.commands).into_iter();
        let pending = mem::take(&mut self.pending);
        commands
            .zip(pending)
            .map(|(command, pending)| pending.queued(command))
    }

    /// The span of the batch. It is in the trace of its first call, and has a link to each of the others.
    pub(super) fn span(&self) -> Span {
        let mut calls = self
            .pending
            .iter()
            .filter_map(|pending| pending.reply_to.span());
        let Some(first) = calls.next() else {
            return Span::none();
        };
        let commands = self.batch.commands.len();
        let span = tracing::debug_span!(parent: first, "batch", commands);
        for other in calls {
            span.follows_from(other);
        }
        span
    }

    /// Whether no caller waits for an answer: all commands are the engine's, which will send them
    /// again.
    pub(super) fn is_unasked(&self) -> bool {
        let mut pending = self.pending.iter();
        pending.all(|pending| matches!(pending.reply_to, ReplyTo::Engine))
    }

    /// The next step after the batch met `error`.
    pub(super) fn after(&mut self, error: &StoreError, is_in_time: bool) -> Next {
        match error.kind() {
            Kind::Locked if !is_in_time || self.is_unasked() => Next::Answer,
            Kind::Locked if !error.locked().is_empty() => Next::Block,
            Kind::Locked if !mem::replace(&mut self.has_met_unnamed, true) => Next::StepAside,
            Kind::Locked => Next::OneByOne,
            Kind::Rejected if self.batch.commands.len() > 1 => Next::OneByOne,
            _ => Next::Answer,
        }
    }

    /// How many commands are not answered yet.
    pub(super) fn len(&self) -> usize {
        self.pending.len()
    }

    /// The asks that wait `now` and need a `locked` semaphore, and no other locked row; without `locked`,
    /// all that wait.
    pub(super) fn waiting_asks(&self, locked: Option<&Footprint>, now: Instant) -> Vec<&Ask> {
        let is_among = |command: &Command| {
            let Some(locked) = locked else {
                return true;
            };
            let needs = Footprint::of(std::slice::from_ref(command), &[]);
            !needs.semaphores.is_disjoint(&locked.semaphores)
                && needs.requests.is_disjoint(&locked.requests)
                && needs.owners.is_disjoint(&locked.owners)
        };
        let commands = self.batch.commands.iter().zip(&self.pending);
        let asks = commands.filter_map(|(command, pending)| {
            let ask = command.ask().filter(|_| pending.reply_to.waits(now))?;
            is_among(command).then_some(ask)
        });
        asks.collect()
    }

    /// Takes the commands that need one of the `locked` rows out of the batch. Those of them that are
    /// `lacking` something and wait `now` are to stand in line.
    pub(super) fn set_aside(
        &mut self,
        locked: &Footprint,
        lacking: Lacking,
        now: Instant,
    ) -> SetAside {
        let (blocked, rest): (Vec<_>, Vec<_>) =
            self.empty().partition(|queued| queued.needs_any(locked));
        let (mut set_aside, blocked) = set_aside_lacking(blocked, lacking, now);
        let blocked = blocked.into_iter().map(|queued| (queued, locked.clone()));
        set_aside.blocked = blocked.collect();
        set_aside.freed = self.fill_with_rest(rest);
        set_aside
    }

    /// Takes the asks that are `lacking` room out of a batch that did not get its locks in time. No single transaction keeps
    /// the rows locked: many processes use one of them in turn.
    pub(super) fn step_aside(&mut self, lacking: Lacking, now: Instant) -> SetAside {
        let all = self.empty().collect();
        let (mut set_aside, rest) = set_aside_lacking(all, lacking, now);
        set_aside.freed = self.fill_with_rest(rest);
        set_aside
    }

    /// Takes the commands that met a locked row when they were tried alone out of the batch. An
    /// example is a late renewal, which needs a semaphore that it does not name. A command gets the
    /// error if the store cannot name the lock. Returns the results of the rest.
    pub(super) fn set_aside_one_by_one(
        &mut self,
        results: Vec<Answered>,
    ) -> (SetAside, Vec<Answered>) {
        let (mut blocked, mut rest, mut answers) = (Vec::new(), Vec::new(), Vec::new());
        for (queued, answer) in self.empty().zip(results) {
            match answer {
                Err(error) if !error.locked().is_empty() => {
                    blocked.push((queued, error.locked().clone()));
                }
                Err(error) if error.kind() == Kind::Locked => {
                    tracing::debug!(%error, "a command met a lock that has no name");
                    rest.push(queued);
                    answers.push(Err(retry::for_caller(error)));
                }
                answer => {
                    rest.push(queued);
                    answers.push(answer);
                }
            }
        }
        let set_aside = SetAside {
            blocked,
            freed: self.fill_with_rest(rest),
            ..SetAside::default()
        };
        (set_aside, answers)
    }

    /// Goes on with the `rest` of its commands. Returns the semaphores that none of them touches.
    fn fill_with_rest(&mut self, rest: Vec<Queued>) -> HashSet<SemaphoreName> {
        let looked_at = rest.iter().filter_map(|queued| match &queued.command {
            Command::Stand { name, .. } => Some(name),
            _ => None,
        });
        let touched = rest.iter().flat_map(|queued| &queued.touches);
        let touched: HashSet<_> = touched.chain(looked_at).collect();
        let is_freed = |name: &SemaphoreName| !touched.contains(name);
        let freed: HashSet<_> = self.semaphores.extract_if(is_freed).collect();
        self.fill(rest);
        freed
    }

    /// The commands with their `answers`, in order.
    pub(super) fn decided(&mut self, answers: Vec<Answered>) -> Vec<Decided> {
        let decided = self.empty().zip(answers);
        decided
            .map(|(queued, answer)| Decided::of(queued, answer))
            .collect()
    }
}

impl SetAside {
    /// Whether there are no such commands.
    pub(super) fn is_empty(&self) -> bool {
        self.lacking.is_empty() && self.blocked.is_empty()
    }
}

/// Has those of the `commands` that are `lacking` something and wait `now` stand in line. Returns the others in their order.
fn set_aside_lacking(
    commands: Vec<Queued>,
    lacking: Lacking,
    now: Instant,
) -> (SetAside, Vec<Queued>) {
    let Lacking { semaphores, by_id } = lacking;
    let mut set_aside = SetAside {
        seen: semaphores,
        ..SetAside::default()
    };
    let mut rest = Vec::new();
    for queued in commands {
        let ask = queued.command.ask().filter(|_| queued.reply_to.waits(now));
        let Some(lacks) = ask.and_then(|ask| by_id.get(&ask.external_id)) else {
            rest.push(queued);
            continue;
        };
        let answer = Ok(Err(Refusal::Exhausted(lacks.clone())));
        set_aside.lacking.push(Decided::of(queued, answer));
    }
    (set_aside, rest)
}

impl Decided {
    fn of(queued: Queued, answer: Answered) -> Self {
        Self {
            command: queued.command,
            reply_to: queued.reply_to,
            frees: queued.frees,
            answer,
        }
    }
}

/// A batch of `commands`. `also` are semaphores that they are known to need though they do not name them. The store finds
/// any others itself.
pub(super) fn batch(commands: Vec<Command>, also: &HashSet<SemaphoreName>) -> Batch {
    let footprint = Footprint::of(&commands, also);
    Batch {
        commands,
        footprint,
    }
}

/// Whether `answer` is a grant that may have expired, since the answer took so long.
pub(super) fn may_have_expired(answer: &Answered, took: Duration) -> bool {
    match answer {
        Ok(Ok(Reply::Granted { lasts, .. })) => lasts.is_some_and(|lasts| lasts <= took),
        _ => false,
    }
}

/// The `new` answer, with `now` of the `first`: only the first answer says whether this call granted the request.
pub(super) fn as_granted(first: &Answered, mut new: Answered) -> Answered {
    if let (Ok(Ok(Reply::Granted { now: was, .. })), Ok(Ok(Reply::Granted { now, .. }))) =
        (first, &mut new)
    {
        *now = *was;
    }
    new
}

/// The same error for each of `many` callers.
pub(super) fn shared(error: StoreError, many: usize) -> impl Iterator<Item = Answered> {
    let error = Arc::new(retry::for_caller(error));
    (0..many).map(move |_| {
        Err(StoreError::new(error.kind(), "the batch failed").caused_by(Arc::clone(&error)))
    })
}

#[cfg(test)]
mod tests;
