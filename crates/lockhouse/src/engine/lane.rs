//! A lane: one batch on its way to the store and back, as a state machine without I/O.
//!
//! [`Lane::step`] says what to ask the store next; the [driver](super::driver) asks it, and hands the result to
//! [`Lane::found_locked`] or [`Lane::transacted`], which says which commands are blocked by it. Once [`Step::Answer`] is
//! reached, [`Lane::answers`] has the outcome of every command that is left.
//!
//! - A batch whose lock wait timed out takes the commands out that need a locked row ([blocked](super::blocked)), and goes
//!   on with the rest at once.
//! - A batch that the store turns down is tried command by command, so that only the one to blame fails.
//! - A grant that may have expired before its answer is not answered as one (P8). Whether it has, only the store knows: it
//!   is asked again until it says either that it has, or that there is time left (P9).

use std::collections::HashSet;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use lockhouse_core::store::{Batch, Error as StoreError, Kind};
use lockhouse_core::{Command, Count, Footprint, Outcome, Reply, SemaphoreName, StillWaiting};
use tokio::time::Instant;

use super::queue::{LaneKind, Queued, Sequence, Taken};
use super::reply_to::ReplyTo;
use super::retry::OnLock;
use super::waiting::Answered;

/// The pause before a batch is tried again after a lock wait that timed out, where the store found no locked row.
const PAUSE: Duration = Duration::from_millis(10);

/// A batch on its way.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) kind: LaneKind,
    /// The semaphores that no other lane has meanwhile.
    pub(super) semaphores: HashSet<SemaphoreName>,
    batch: Batch,
    /// The rest of each command of the batch. Empty once they are answered.
    pending: Vec<Pending>,
    begun: Instant,
    deadline: Instant,
    stage: Stage,
}

/// A command of the batch, without what [`Batch`] has of it.
#[derive(Debug)]
struct Pending {
    sequence: Sequence,
    touches: Vec<SemaphoreName>,
    frees: Vec<(SemaphoreName, Count)>,
    reply_to: ReplyTo,
}

/// How far a lane has come.
#[derive(Debug)]
enum Stage {
    /// The store is asked which rows are locked, before the batch waits for one.
    FindLocked,
    /// The store decides the batch. `is_again` after a lock wait that timed out without a locked row to be found.
    Whole { is_again: bool },
    /// The same after a pause.
    Pause,
    /// The store decides one command after the other.
    OneByOne(OneByOne),
    /// Grants that may have expired are decided again.
    Late(Late),
    /// All is decided.
    Decided(Vec<Answered>),
}

#[derive(Debug)]
struct OneByOne {
    answers: Vec<Answered>,
    /// The next command.
    alone: Batch,
    /// Asks that were refused and go on waiting come before those behind them, as they do in one batch.
    waiting: StillWaiting,
}

#[derive(Debug)]
struct Late {
    answers: Vec<Answered>,
    /// When the call began whose answer each has.
    begun: Vec<Instant>,
    /// The commands whose grants may have expired, and which of the batch they are.
    again: Batch,
    which: Vec<usize>,
    asked: Instant,
}

/// What a lane asks for next.
#[derive(Debug)]
pub(super) enum Step<'a> {
    /// Find out which of these rows are locked.
    FindLocked(&'a Footprint),
    /// Let this time pass.
    Pause(Duration),
    /// Have the store decide and save this.
    Transact(&'a Batch, OnLock),
    /// Answer: all is decided.
    Answer,
}

/// Commands that a lane takes out of its batch, each with the locked rows that it needs.
#[derive(Debug, Default)]
pub(super) struct TakenOut {
    pub(super) commands: Vec<(Queued, Footprint)>,
    /// The semaphores that no other command of the batch touches: nobody waits for the taken-out commands there.
    pub(super) freed: HashSet<SemaphoreName>,
}

impl TakenOut {
    pub(super) fn is_empty(&self) -> bool {
        self.commands.is_empty() && self.freed.is_empty()
    }
}

/// A command of a batch, and its outcome.
#[derive(Debug)]
pub(super) struct Decided {
    pub(super) command: Command,
    pub(super) reply_to: ReplyTo,
    pub(super) frees: Vec<(SemaphoreName, Count)>,
    pub(super) answer: Answered,
}

impl Lane {
    /// A lane for what was `taken`, which is to be answered by `deadline`. It `looks_first` where other rows are locked:
    /// then there may be more.
    pub(super) fn new(taken: Taken, looks_first: bool, now: Instant, deadline: Instant) -> Self {
        let Taken {
            kind,
            commands,
            semaphores,
        } = taken;
        let mut lane = Self {
            kind,
            semaphores,
            batch: batch(Vec::new(), &HashSet::new()),
            pending: Vec::new(),
            begun: now,
            deadline,
            stage: match looks_first {
                true => Stage::FindLocked,
                false => Stage::Whole { is_again: false },
            },
        };
        lane.fill(commands);
        lane
    }

    /// When the answers are due.
    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// What to do next.
    pub(super) fn step(&self) -> Step<'_> {
        match &self.stage {
            Stage::FindLocked => Step::FindLocked(&self.batch.footprint),
            Stage::Whole { .. } => Step::Transact(&self.batch, OnLock::Report),
            Stage::Pause => Step::Pause(PAUSE),
            Stage::OneByOne(each) => Step::Transact(&each.alone, OnLock::Report),
            Stage::Late(late) => Step::Transact(&late.again, OnLock::Retry),
            Stage::Decided(_) => Step::Answer,
        }
    }

    /// The time of [`Step::Pause`] has passed.
    pub(super) fn paused(&mut self) {
        self.stage = Stage::Whole { is_again: true };
    }

    /// The answer to [`Step::FindLocked`]: these rows are `locked`, as far as is known.
    pub(super) fn found_locked(&mut self, locked: &Footprint) -> TakenOut {
        let taken_out = self.take_out(locked);
        self.stage = match self.batch.commands.is_empty() {
            true => Stage::Decided(Vec::new()),
            false => Stage::Whole { is_again: false },
        };
        taken_out
    }

    /// The answer to [`Step::Transact`], which came `now`.
    pub(super) fn transacted(
        &mut self,
        result: Result<Vec<Outcome>, StoreError>,
        now: Instant,
    ) -> TakenOut {
        match mem::replace(&mut self.stage, Stage::Decided(Vec::new())) {
            Stage::OneByOne(each) => return self.one_decided(each, result, now),
            Stage::Late(late) => self.late_decided(late, result, now),
            Stage::Whole { is_again } => return self.batch_decided(is_again, result, now),
            Stage::FindLocked | Stage::Pause | Stage::Decided(_) => {}
        }
        TakenOut::default()
    }

    /// The commands that are left, with their outcomes. The lane has none any more.
    pub(super) fn answers(&mut self) -> Vec<Decided> {
        let answers = match mem::replace(&mut self.stage, Stage::Decided(Vec::new())) {
            Stage::Decided(answers) => answers,
            _ => Vec::new(),
        };
        self.answered_with(answers)
    }

    /// Whether commands are not answered yet.
    pub(super) fn is_under_way(&self) -> bool {
        !self.pending.is_empty()
    }

    /// The commands that are left, for a task that ended before their outcomes were known.
    pub(super) fn cut_off(&mut self) -> Vec<Decided> {
        let error = StoreError::new(Kind::Unknown, "the task that spoke to the store ended");
        let answers = shared(error, self.pending.len()).collect();
        self.answered_with(answers)
    }

    fn batch_decided(
        &mut self,
        is_again: bool,
        result: Result<Vec<Outcome>, StoreError>,
        now: Instant,
    ) -> TakenOut {
        let error = match result {
            Ok(outcomes) => {
                self.decided(outcomes.into_iter().map(Ok).collect(), now);
                return TakenOut::default();
            }
            Err(error) => error,
        };
        let many = self.batch.commands.len();
        match error.kind() {
            Kind::Locked if now < self.deadline => {
                tracing::debug!(%error, many, "a batch met locked rows");
                let is_named = !error.locked().is_empty();
                if !is_named && !is_again {
                    // The rows may be free again, or it was a gap between rows.
                    self.stage = Stage::Pause;
                    return TakenOut::default();
                }
                let taken_out = self.take_out(error.locked());
                match taken_out.commands.is_empty() {
                    true => self.decide_one_by_one(),
                    false if self.batch.commands.is_empty() => self.decided(Vec::new(), now),
                    false => self.stage = Stage::Whole { is_again },
                }
                return taken_out;
            }
            Kind::Rejected if many > 1 => {
                tracing::warn!(%error, many, "a batch was turned down, trying one by one");
                self.decide_one_by_one();
            }
            _ => self.decided(shared(error, many).collect(), now),
        }
        TakenOut::default()
    }

    fn decide_one_by_one(&mut self) {
        let mut each = OneByOne {
            answers: Vec::with_capacity(self.batch.commands.len()),
            alone: batch(Vec::new(), &HashSet::new()),
            waiting: StillWaiting::default(),
        };
        each.next(&self.batch.commands);
        self.stage = Stage::OneByOne(each);
    }

    fn one_decided(
        &mut self,
        mut each: OneByOne,
        result: Result<Vec<Outcome>, StoreError>,
        now: Instant,
    ) -> TakenOut {
        let answer = result.map(|mut outcomes| outcomes.remove(0));
        each.answered(answer);
        if each.next(&self.batch.commands) {
            self.stage = Stage::OneByOne(each);
            return TakenOut::default();
        }
        self.take_out_one_by_one(each.answers, now)
    }

    /// Takes the commands out that met a locked row when they were tried alone, as a renewal does that comes too late and
    /// needs a semaphore which it does not name. A new id that sorts into a locked gap is answered with the error: no poll
    /// would find the gap.
    fn take_out_one_by_one(&mut self, all: Vec<Answered>, now: Instant) -> TakenOut {
        let (mut commands, mut rest, mut answers) = (Vec::new(), Vec::new(), Vec::new());
        for (queued, answer) in self.empty().zip(all) {
            match answer {
                Err(error) if !error.locked().is_empty() => {
                    commands.push((queued, error.locked().clone()));
                }
                answer => {
                    rest.push(queued);
                    answers.push(answer);
                }
            }
        }
        let freed = self.keep(rest);
        self.decided(answers, now);
        TakenOut { commands, freed }
    }

    /// Takes the commands out that need one of the `locked` rows.
    fn take_out(&mut self, locked: &Footprint) -> TakenOut {
        if locked.is_empty() {
            return TakenOut::default();
        }
        let (commands, rest): (Vec<_>, Vec<_>) = self
            .empty()
            .partition(|queued| queued.needs().overlaps(locked));
        let commands = commands
            .into_iter()
            .map(|queued| (queued, locked.clone()))
            .collect();
        let freed = self.keep(rest);
        TakenOut { commands, freed }
    }

    /// Goes on with `rest`; the semaphores that it no longer has.
    fn keep(&mut self, rest: Vec<Queued>) -> HashSet<SemaphoreName> {
        let touched: HashSet<_> = rest.iter().flat_map(|queued| &queued.touches).collect();
        let is_freed = |name: &SemaphoreName| !touched.contains(name);
        let freed = self.semaphores.extract_if(is_freed).collect();
        self.fill(rest);
        freed
    }

    /// All commands have their `answers`, unless a grant among them is late.
    fn decided(&mut self, answers: Vec<Answered>, now: Instant) {
        let begun = vec![self.begun; answers.len()];
        self.decide_again_if_late(answers, begun, now);
    }

    /// Deciding again takes time again, also for grants that were not late before.
    fn decide_again_if_late(&mut self, answers: Vec<Answered>, begun: Vec<Instant>, now: Instant) {
        let all = answers.iter().zip(&begun).enumerate();
        let late = all.filter(|(_, (answer, begun))| may_have_expired(answer, now - **begun));
        let which: Vec<usize> = late.map(|(i, _)| i).collect();
        if which.is_empty() {
            self.stage = Stage::Decided(answers);
            return;
        }
        let commands = which.iter().map(|i| self.batch.commands[*i].clone());
        self.stage = Stage::Late(Late {
            answers,
            begun,
            // None of the semaphores that only others in the batch need: those may be what made these late.
            again: batch(commands.collect(), &HashSet::new()),
            which,
            asked: now,
        });
    }

    fn late_decided(&mut self, late: Late, result: Result<Vec<Outcome>, StoreError>, now: Instant) {
        let Late {
            mut answers,
            mut begun,
            which,
            asked,
            ..
        } = late;
        let new: Vec<Answered> = match result {
            Ok(outcomes) => outcomes.into_iter().map(Ok).collect(),
            Err(error) => {
                let lost = "a grant took longer than it lasts, and asking again failed";
                let error = StoreError::new(Kind::Unknown, lost).caused_by(error);
                shared(error, which.len()).collect()
            }
        };
        for (i, new) in which.into_iter().zip(new) {
            begun[i] = asked;
            answers[i] = as_granted(&answers[i], new);
        }
        self.decide_again_if_late(answers, begun, now);
    }

    fn answered_with(&mut self, answers: Vec<Answered>) -> Vec<Decided> {
        let all = self.empty().zip(answers);
        let decided = all.map(|(queued, answer)| Decided {
            command: queued.command,
            reply_to: queued.reply_to,
            frees: queued.frees,
            answer,
        });
        decided.collect()
    }

    fn fill(&mut self, commands: Vec<Queued>) {
        let split = |queued: Queued| {
            let pending = Pending {
                sequence: queued.sequence,
                touches: queued.touches,
                frees: queued.frees,
                reply_to: queued.reply_to,
            };
            (queued.command, pending)
        };
        let (commands, pending) = commands.into_iter().map(split).unzip();
        self.batch = batch(commands, &self.semaphores);
        self.pending = pending;
    }

    /// Takes all commands out.
    fn empty(&mut self) -> impl Iterator<Item = Queued> + use<> {
        let commands = mem::take(&mut self.batch.commands).into_iter();
        let pending = mem::take(&mut self.pending).into_iter();
        commands.zip(pending).map(|(command, pending)| Queued {
            sequence: pending.sequence,
            command,
            touches: pending.touches,
            frees: pending.frees,
            reply_to: pending.reply_to,
        })
    }
}

impl OneByOne {
    /// Goes on with the next of `commands`, if one is left.
    fn next(&mut self, commands: &[Command]) -> bool {
        let Some(command) = commands.get(self.answers.len()) else {
            return false;
        };
        let mut command = command.clone();
        if let Command::Acquire { ask, turn } = &mut command {
            let ahead = self.waiting.ahead_of(ask, turn);
            turn.behind.extend(ahead);
        }
        self.alone = batch(vec![command], &HashSet::new());
        true
    }

    fn answered(&mut self, answer: Answered) {
        if let (Some(Command::Acquire { ask, turn }), Ok(Err(refusal))) =
            (self.alone.commands.first(), &answer)
        {
            if turn.waits && refusal.lacks_room() {
                self.waiting.add(ask, turn);
            }
        }
        self.answers.push(answer);
    }
}

/// `also` are semaphores that `commands` are known to need, though they do not name them. The store finds out the rest.
fn batch(commands: Vec<Command>, also: &HashSet<SemaphoreName>) -> Batch {
    let footprint = Footprint::of(&commands, also);
    Batch {
        commands,
        footprint,
    }
}

/// Whether it is a grant that may be over, as its answer took so long.
fn may_have_expired(answer: &Answered, took: Duration) -> bool {
    match answer {
        Ok(Ok(Reply::Granted { lasts, .. })) => lasts.is_some_and(|lasts| lasts <= took),
        _ => false,
    }
}

/// The `new` answer for a grant that was made by the call of the `first`.
fn as_granted(first: &Answered, mut new: Answered) -> Answered {
    if let (Ok(Ok(Reply::Granted { now: was, .. })), Ok(Ok(Reply::Granted { now, .. }))) =
        (first, &mut new)
    {
        *now = *was;
    }
    new
}

/// The same error for each of the callers that it befell.
fn shared(error: StoreError, many: usize) -> impl Iterator<Item = Answered> {
    let error = Arc::new(error);
    (0..many).map(move |_| {
        Err(StoreError::new(error.kind(), "the batch failed").caused_by(Arc::clone(&error)))
    })
}

#[cfg(test)]
mod tests;
