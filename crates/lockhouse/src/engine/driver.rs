//! Lanes: commands that share semaphores go to the store together, in one transaction; others go side by side.
//!
//! Commands wait in a [`queue`](super::queue), in the order in which they came. A free lane takes the first one that may
//! go, and with it, in their order, those that share a semaphore with what it has taken. A semaphore is in one lane at a
//! time: commands on it wait here, without a connection, while the store is busy with those before; and the longer that
//! takes, the larger the next batch. No command overtakes another that it shares a semaphore with.
//!
//! The last free lane takes any command that may go, so that many quiet semaphores share a commit too. Commands that need a
//! row which another transaction keeps locked are [blocked](super::blocked).
//!
//! [Waiters](super::waiting) are called as soon as a command is queued that gives permits back, and are queued right behind
//! it: so the batch that releases also grants, in one commit.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lockhouse_core::store::{Error as StoreError, FullStore, Kind};
use lockhouse_core::{
    Command, Footprint, Outcome, Place, ProcessId, Refusal, Saved, SemaphoreName,
};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::blocked::Blocked;
use super::lane::Lane;
use super::publisher::Publisher;
use super::queue::{Queue, Queued, Taken};
use super::reply_to::{Answer, Caller, ReplyTo};
use super::waiting::{Wait, WaitingLine};
use super::{Shared, Touches};
use crate::Error;

/// How many commands may be queued or set aside.
const MOST: usize = 50_000;

#[derive(Clone, Debug)]
pub(super) struct Driver {
    pub(super) store: Arc<dyn FullStore>,
    pub(super) shared: Arc<Shared>,
    state: Arc<Mutex<State>>,
}

/// Commands that are queued or set aside, and callers that wait. One lock, as they move from one to the
/// other.
#[derive(Debug)]
pub(super) struct State {
    pub(super) queue: Queue,
    pub(super) blocked: Blocked,
    pub(super) waiting: WaitingLine,
    /// What other processes see of them.
    pub(super) publisher: Publisher,
    /// Whether somebody looks for what other processes do.
    pub(super) has_poller: bool,
    /// Whether a task polls the rows that are locked.
    pub(super) has_lock_poller: bool,
}

impl State {
    /// Queues those who may go now.
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

    fn push_waiter(&mut self, place: Place) {
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

    /// Queues `queued`, or sets it aside if a row that it needs is locked.
    fn push(&mut self, mut queued: Queued) {
        if self.blocked.concerns(&queued) {
            queued.ticket = self.queue.ticket();
            match &queued.reply_to {
                // It is sent again.
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

    /// Queues what was set aside again, by its ticket.
    pub(super) fn put_back(&mut self, queued: Vec<Queued>) {
        for queued in queued {
            if let ReplyTo::Waiter(place) = &queued.reply_to {
                self.waiting.unlock(*place);
            }
            self.waiting.expect(&queued.frees);
            self.queue.put(queued);
        }
    }

    /// Takes note that `rows` are locked, and sets those aside that are queued and need one of them.
    pub(super) fn lock(&mut self, rows: &Footprint) {
        self.blocked.lock(rows);
        let blocked = &self.blocked;
        for queued in self.queue.remove_if(|queued| blocked.concerns(queued)) {
            let mut needed = rows.clone();
            needed.intersect(&queued.needs());
            self.block(queued, &needed);
        }
    }

    /// Sets `queued` aside, which was queued or in a lane, until `rows` are free that it needs.
    pub(super) fn block(&mut self, queued: Queued, rows: &Footprint) {
        self.waiting.expect_no_more(&queued.frees);
        match &queued.reply_to {
            // What is not answered is looked at again with the next batch.
            ReplyTo::Engine => return,
            ReplyTo::Waiter(place) => self.waiting.lock(*place),
            ReplyTo::Caller(_) => {}
        }
        let mut rows = rows.clone();
        if self.blocked.concerns(&queued) {
            // Whether it needs the templates only the batch knows that it was in.
            let templates = rows.templates;
            rows.intersect(&queued.needs());
            rows.templates = templates;
        }
        self.blocked.add(queued, &rows);
    }

    fn is_full(&self) -> bool {
        self.queue.len() + self.blocked.len() >= MOST
    }
}

impl Driver {
    pub(super) fn new(store: Arc<dyn FullStore>, shared: Arc<Shared>) -> Self {
        let state = State {
            queue: Queue::new(store.max_batch()),
            blocked: Blocked::default(),
            waiting: WaitingLine::new(ProcessId::new(fastrand::u64(1..))),
            publisher: Publisher::default(),
            has_poller: false,
            has_lock_poller: false,
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
                Err(Error::Internal("a non-waiting call was queued".into()))
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
        let is_queued = self.push(command, touches, wait, deadline, answer);
        // Also where the queue is full: a runtime that ended may have left it so.
        self.fill_lanes();
        if !is_queued {
            return Err(Error::Overloaded);
        }
        match timeout_at(wait.answered_by(deadline), answered).await {
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
        deadline: Instant,
        answer: oneshot::Sender<Answer>,
    ) -> bool {
        let mut state = self.state();
        if state.is_full() {
            return false;
        }
        let ask = command.ask();
        let ticket = ask.map(|ask| state.waiting.ticket(ask, wait));
        let caller = Caller {
            ticket,
            answer,
            deadline,
        };
        let Touches { semaphores, frees } = touches;
        state.push(Queued::new(
            command,
            semaphores,
            frees,
            ReplyTo::Caller(caller),
        ));
        state.call();
        true
    }

    /// Takes a waiter out of its lines, and says why it was not granted; None if it is being served,
    /// or was.
    pub(super) fn leave(&self, place: Place) -> Option<Refusal> {
        let waiter = self.state().waiting.leave(place)?;
        self.call();
        Some(waiter.refused)
    }

    /// Queues those who may go now, and lets them go.
    pub(super) fn call(&self) {
        self.state().call();
        self.fill_lanes();
    }

    /// Saves how this process's waiters stand, of those semaphores where that is due for its own sake.
    pub(super) fn save_due(&self) {
        let mut state = self.state();
        let now = Instant::now();
        state.waiting.look_where_others_were_first(now);
        for (name, saved) in state.waiting.due_to_save(now) {
            state.push_stand(name, saved);
        }
        state.call();
        drop(state);
        self.fill_lanes();
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn fill_lanes(&self) {
        // Lanes are tasks. Outside a runtime, which is where a call may be dropped, none can begin;
        // the next call begins them.
        if tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        loop {
            // The lock is let go of before the spawn: a runtime that ends drops the lane there.
            let lane = {
                let State { queue, waiting, .. } = &mut *self.state();
                let Some(mut taken) = queue.take(|queued| admit(queued, waiting)) else {
                    break;
                };
                let looks = looks(&mut taken, waiting);
                taken.commands.extend(looks);
                Lane::new(self.clone(), taken)
            };
            tokio::spawn(lane.run());
        }
        self.poll_locked_rows();
    }
}

/// A look at those of the semaphores that are waited for, to come last: they are loaded anyway. One that
/// was queued for its own sake, as `saved` says, comes last too.
fn looks(taken: &mut Taken, waiting: &mut WaitingLine) -> Vec<Queued> {
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
    let looks = stands.into_iter().map(|(name, saved)| {
        let stand = waiting.stand(&name, saved);
        let look = Command::Stand { name, stand };
        Queued::new(look, Vec::new(), Vec::new(), ReplyTo::Engine)
    });
    looks.collect()
}

/// Gives what is taken its turn; whether it still goes.
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
