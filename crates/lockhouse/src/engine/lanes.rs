//! Lanes: commands that share semaphores go to the store together, in one transaction; those that
//! don't go side by side.
//!
//! Commands wait in a [`queue`](super::queue), in the order in which they came. A free lane takes
//! the first one that may go, and with it, in their order, those that share a semaphore with what
//! it has taken. A semaphore is in one lane at a time: what touches it waits here, without a
//! connection, while the store is busy with those before; and the longer that takes, the larger the
//! next batch. No command overtakes another that it shares a semaphore with.
//!
//! The last free lane takes whatever there is, so that many quiet semaphores share a commit too.
//!
//! Those who [wait](super::waiting) for room are called as soon as a command is queued that gives
//! some back, and come right behind it: so the batch that releases also grants, in one commit.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockhouse_core::store::{Batch, Error as StoreError, Kind, Store};
use lockhouse_core::{Code, Command, Count, Footprint, Outcome, Place, Reply, SemaphoreName, Turn};
use tokio::sync::oneshot;
use tokio::task::yield_now;
use tokio::time::{Instant, timeout_at};

use super::asker::{Answer, Asker, Caller};
use super::queue::{Queue, Queued, Taken};
use super::settle::{Decided, settle};
use super::ticket::Wait;
use super::waiting::{Answered, Waiting};
use super::{Shared, Touches, attempt};
use crate::Error;

/// How often the runtime's other tasks are let go first, before a semaphore's next batch begins.
const MOST_YIELDS: u32 = 8;

#[derive(Clone, Debug)]
pub(super) struct Lanes {
    store: Arc<dyn Store>,
    shared: Arc<Shared>,
    state: Arc<Mutex<State>>,
}

/// Who is queued and who waits. One lock, as they move from one to the other.
#[derive(Debug)]
pub(super) struct State {
    queue: Queue,
    pub(super) waiting: Waiting,
    /// Whether somebody looks for what other processes do.
    pub(super) is_watched: bool,
}

impl State {
    /// Queues those who may go now.
    pub(super) fn call(&mut self) {
        for place in self.waiting.call() {
            let Some(waiter) = self.waiting.get(place) else {
                continue;
            };
            let touches = waiter.ask.permits().map(|(name, _)| name.clone());
            self.queue.push(Queued {
                touches: touches.collect(),
                command: Command::AcquireInTurn(waiter.ask.clone(), Turn::default()),
                frees: Vec::new(),
                asker: Asker::Waiter(place),
            });
        }
    }
}

impl Lanes {
    pub(super) fn new(store: Arc<dyn Store>, shared: Arc<Shared>) -> Self {
        let state = State {
            queue: Queue::default(),
            waiting: Waiting::new(),
            is_watched: false,
        };
        Self {
            store,
            shared,
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Has `command` decided before `deadline`, which touches `touches` as far as is known.
    ///
    /// Dropping the future takes the command out of the queue; one that is in a lane goes on.
    pub(super) async fn submit(
        &self,
        command: Command,
        touches: Touches,
        deadline: Instant,
    ) -> Result<Outcome, Error> {
        match self.ask(command, touches, Wait::No, deadline).await? {
            Answer::Decided(outcome) => Ok(outcome?),
            Answer::Waits(_) | Answer::Overloaded => {
                Err(Error::Internal("who does not wait was parked".into()))
            }
        }
    }

    /// The same for an ask that waits, and may then be answered that it does.
    pub(super) async fn ask(
        &self,
        command: Command,
        touches: Touches,
        wait: Wait,
        deadline: Instant,
    ) -> Result<Answer, Error> {
        let (answer, answered) = oneshot::channel();
        let is_queued = self.push(command, touches, wait, answer);
        // Also where the queue is full: a runtime that ended may have left it so.
        self.fill_lanes();
        if !is_queued {
            return Err(Error::Overloaded);
        }
        match timeout_at(deadline, answered).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) => Err(Error::Internal("a lane ended without an answer".into())),
            Err(_) => {
                Err(StoreError::new(Kind::Unknown, "the store did not answer in time").into())
            }
        }
    }

    /// Queues a call, and those who may go by it; false if too many are queued.
    fn push(
        &self,
        command: Command,
        touches: Touches,
        wait: Wait,
        answer: oneshot::Sender<Answer>,
    ) -> bool {
        let mut state = self.state();
        if state.queue.is_full() {
            return false;
        }
        let (command, ticket) = match command {
            Command::Acquire(ask) => {
                let ticket = state.waiting.ticket(&ask, wait);
                (Command::AcquireInTurn(ask, Turn::default()), Some(ticket))
            }
            other => (other, None),
        };
        state.waiting.expect(&touches.frees);
        state.queue.push(Queued {
            command,
            touches: touches.semaphores,
            frees: touches.frees,
            asker: Asker::Caller(Caller { ticket, answer }),
        });
        state.call();
        true
    }

    /// Takes one who waits out of its lines, and says what it lacked; None if it is being served,
    /// or was.
    pub(super) fn leave(&self, place: Place) -> Option<Vec<SemaphoreName>> {
        let waiter = self.state().waiting.leave(place)?;
        self.call();
        Some(waiter.lacked)
    }

    /// Queues those who may go now, and lets them go.
    pub(super) fn call(&self) {
        self.state().call();
        self.fill_lanes();
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fill_lanes(&self) {
        // Lanes are tasks. Outside a runtime, which is where a call may be dropped, none can begin;
        // the next call begins them.
        if tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        loop {
            // The lock is let go of before the spawn: a runtime that ends drops the lane there.
            let lane = {
                let State { queue, waiting, .. } = &mut *self.state();
                let Some(Taken {
                    mut commands,
                    semaphores,
                }) = queue.take(|queued| admit(queued, waiting))
                else {
                    return;
                };
                let locked = locked(&commands);
                commands.extend(looks(&locked, waiting));
                Lane::new(self.clone(), semaphores, &locked, commands)
            };
            tokio::spawn(lane.run());
        }
    }
}

/// The semaphores that `commands` are known to need. Renewals need none, unless they come too late.
fn locked(commands: &[Queued]) -> BTreeSet<SemaphoreName> {
    let need = commands
        .iter()
        .filter(|queued| !matches!(queued.command, Command::Renew { .. }));
    need.flat_map(|queued| &queued.touches).cloned().collect()
}

/// A look at those of the semaphores that are waited for, to come last: they are loaded anyway.
fn looks(locked: &BTreeSet<SemaphoreName>, waiting: &Waiting) -> impl Iterator<Item = Queued> {
    let waited_for = locked.iter().filter(|name| waiting.on(name) > 0);
    waited_for.map(|name| Queued {
        command: Command::Look { name: name.clone() },
        touches: Vec::new(),
        frees: Vec::new(),
        asker: Asker::Nobody,
    })
}

/// Gives what is taken its turn; whether it still goes.
fn admit(queued: &mut Queued, waiting: &mut Waiting) -> bool {
    let turn = match &queued.asker {
        Asker::Caller(caller) if caller.answer.is_closed() => {
            waiting.expect_no_more(&queued.frees);
            return false;
        }
        Asker::Caller(caller) => match (queued.command.ask(), &caller.ticket) {
            (Some(ask), Some(ticket)) => waiting.turn(ask, ticket),
            _ => return true,
        },
        Asker::Waiter(place) => match waiting.take(*place) {
            Some(turn) => turn,
            None => return false,
        },
        Asker::Nobody => return true,
    };
    if let Command::AcquireInTurn(_, its) = &mut queued.command {
        *its = turn;
    }
    true
}

/// A batch on its way. Dropping it, however that comes about, frees its semaphores.
struct Lane {
    lanes: Lanes,
    /// Which no other lane has.
    semaphores: HashSet<SemaphoreName>,
    batch: Batch,
    /// Who asked for each, and what it frees. None are left once they are answered.
    askers: Vec<(Asker, Vec<(SemaphoreName, Count)>)>,
}

impl Lane {
    fn new(
        lanes: Lanes,
        semaphores: HashSet<SemaphoreName>,
        locked: &BTreeSet<SemaphoreName>,
        taken: Vec<Queued>,
    ) -> Self {
        let split = |queued: Queued| (queued.command, (queued.asker, queued.frees));
        let (commands, askers) = taken.into_iter().map(split).unzip();
        Self {
            lanes,
            semaphores,
            batch: batch(commands, locked),
            askers,
        }
    }

    async fn run(mut self) {
        let (begun, deadline) = (Instant::now(), attempt::deadline());
        let mut answers = self.decide(deadline).await;
        self.ask_again_for_the_late(&mut answers, begun, deadline)
            .await;
        self.answer(answers.into_iter());
        self.gather().await;
    }

    /// A grant that may have expired before its answer is not told as one (P8). Whether it has, only
    /// the store knows: it is asked until it says either that it has, or that there is time left
    /// (P9). That takes time again, for those too who were not late before.
    async fn ask_again_for_the_late(
        &self,
        answers: &mut [Answered],
        begun: Instant,
        deadline: Instant,
    ) {
        let mut begun = vec![begun; answers.len()];
        loop {
            let answers = answers.iter_mut().zip(&mut begun);
            let all = self.batch.commands.iter().zip(answers);
            let (again, late): (Vec<_>, Vec<_>) = all
                .filter(|(_, (answer, begun))| may_have_expired(answer, begun.elapsed()))
                .map(|(command, late)| (command.clone(), late))
                .unzip();
            if again.is_empty() {
                return;
            }
            let now = Instant::now();
            // Of what only others in the batch need, nothing: it may be what made these late.
            let again = batch(again, []);
            let many = late.len();
            let new: Vec<_> = match attempt::transact(&*self.lanes.store, &again, deadline).await {
                Ok(outcomes) => outcomes.into_iter().map(Ok).collect(),
                Err(error) => {
                    let lost = "a grant took longer than it lasts, and asking again failed";
                    shared(StoreError::new(Kind::Unknown, lost).caused_by(error), many).collect()
                }
            };
            for ((answer, begun), new) in late.into_iter().zip(new) {
                *begun = now;
                *answer = as_granted(answer, new);
            }
        }
    }

    /// Lets those who ask again at once get into the next batch, with those who came meanwhile: one
    /// batch for all, in place of two that take turns. Ends as soon as nobody comes.
    async fn gather(&self) {
        let mut queued = self.lanes.state().queue.len();
        for _ in 0..MOST_YIELDS {
            yield_now().await;
            let before = mem::replace(&mut queued, self.lanes.state().queue.len());
            if queued <= before {
                return;
            }
        }
    }

    /// Gives each who asked its answer.
    fn answer(&mut self, answers: impl Iterator<Item = Answered>) {
        let commands = mem::take(&mut self.batch.commands);
        let asked = commands.into_iter().zip(mem::take(&mut self.askers));
        let decided = asked.zip(answers);
        let decided = decided.map(|((command, (asker, frees)), answer)| Decided {
            command,
            asker,
            frees,
            answer,
        });
        // Whoever went away does not mind. Who is dropped with an answer locks, so not under the lock.
        let told = settle(&self.lanes, &self.lanes.shared.known, decided);
        told.into_iter().for_each(|told| told.tell());
    }

    /// One result a command. If the store turns a batch down, each command is tried on its own, so
    /// that only the one to blame fails.
    async fn decide(&self, deadline: Instant) -> Vec<Answered> {
        let many = self.batch.commands.len();
        match attempt::transact(&*self.lanes.store, &self.batch, deadline).await {
            Ok(outcomes) => outcomes.into_iter().map(Ok).collect(),
            Err(error) if error.kind() == Kind::Rejected && many > 1 => {
                tracing::warn!(%error, many, "a batch was turned down, trying one by one");
                self.decide_one_by_one(deadline).await
            }
            Err(error) => shared(error, many).collect(),
        }
    }

    /// Who is refused and goes on waiting comes before those behind it, as it does in one batch.
    async fn decide_one_by_one(&self, deadline: Instant) -> Vec<Answered> {
        let mut results = Vec::with_capacity(self.batch.commands.len());
        let mut waits: BTreeMap<SemaphoreName, Place> = BTreeMap::new();
        for command in &self.batch.commands {
            let mut command = command.clone();
            if let Command::AcquireInTurn(ask, turn) = &mut command {
                let is_behind = |name: &&SemaphoreName| {
                    let first = waits.get(*name);
                    first.is_some_and(|first| *first < turn.place)
                };
                let names = ask.permits().map(|(name, _)| name);
                turn.behind.extend(names.filter(is_behind).cloned());
            }
            let alone = batch(vec![command.clone()], []);
            let outcome = attempt::transact(&*self.lanes.store, &alone, deadline).await;
            let answer = outcome.map(|mut outcomes| outcomes.remove(0));
            if let (Command::AcquireInTurn(ask, turn), Ok(Err(refusal))) = (&command, &answer)
                && turn.waits
                && refusal.code() == Code::Exhausted
            {
                for (name, _) in ask.permits() {
                    let first = waits.entry(name.clone()).or_insert(turn.place);
                    *first = turn.place.min(*first);
                }
            }
            results.push(answer);
        }
        results
    }
}

/// `also` are semaphores that `commands` are known to need, though they do not name them. What isn't said
/// there the store finds out.
fn batch<'a>(commands: Vec<Command>, also: impl IntoIterator<Item = &'a SemaphoreName>) -> Batch {
    let footprint = Footprint::of(&commands, also);
    Batch {
        commands,
        footprint,
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        let was_cut_off = !self.askers.is_empty();
        if was_cut_off {
            let error = StoreError::new(Kind::Unknown, "the task that spoke to the store ended");
            self.answer(shared(error, self.askers.len()));
        }
        self.lanes.state().queue.end(&self.semaphores);
        // A runtime that ends takes no other lanes. Those on another begin with the next call there.
        if !was_cut_off || std::thread::panicking() {
            self.lanes.fill_lanes();
        }
    }
}

/// Whether it is a grant that may be over by now, as its answer took so long.
fn may_have_expired(answer: &Answered, took: Duration) -> bool {
    match answer {
        Ok(Ok(Reply::Granted { lasts, .. })) => lasts.is_some_and(|lasts| lasts <= took),
        _ => false,
    }
}

/// The `new` answer for what was granted by the call of the `first`.
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
