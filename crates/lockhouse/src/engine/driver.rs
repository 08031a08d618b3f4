//! Lanes: commands that share semaphores go to the store together, in one transaction; others go side by side.
//!
//! Commands wait in a [`queue`](super::queue) in the order of their arrival. A free lane takes the
//! first command that may go, and with it, in their order, the commands that share a semaphore with
//! it. A semaphore is in one lane at a time. While the store is busy with it, later commands on it
//! wait here without a connection, so a slower store gets larger batches. No command overtakes
//! another with which it shares a semaphore.
//!
//! The last free lane takes any command that may go, so that many quiet semaphores share a commit too. Commands that need a
//! row which another transaction keeps locked are [blocked](super::blocked).
//!
//! As soon as a command that releases permits is queued, the next [waiters](super::waiting) are
//! called and queued right behind it. So the batch that releases also grants, in one commit.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lockhouse_core::store::{Error as StoreError, FullStore, Kind};
use lockhouse_core::{
    Ask, Command, Footprint, Outcome, Place, ProcessId, Refusal, Saved, SemaphoreName,
};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};
use tracing::{Instrument as _, Span};

use super::blocked::Blocked;
use super::lane::Lane;
use super::publisher::Publisher;
use super::queue::{Queue, Queued, Taken};
use super::reply_to::{Answer, Caller, ReplyTo};
use super::waiting::{Wait, WaitingLine};
use super::{Shared, Touches};
use crate::Error;

/// How many commands may be queued or blocked.
const MOST: usize = 50_000;

#[derive(Clone, Debug)]
pub(super) struct Driver {
    pub(super) store: Arc<dyn FullStore>,
    pub(super) shared: Arc<Shared>,
    state: Arc<Mutex<State>>,
}

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

    /// Queues `queued`, or blocks it if a row that it needs is locked.
    fn push(&mut self, mut queued: Queued) {
        if self.blocked.concerns(&queued) {
            queued.ticket = self.queue.ticket();
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

    /// Queues commands that were blocked, in the order of their tickets.
    pub(super) fn put_back(&mut self, queued: Vec<Queued>) {
        for queued in queued {
            if let ReplyTo::Waiter(place) = &queued.reply_to {
                self.waiting.unlock(*place);
            }
            self.waiting.expect(&queued.frees);
            self.queue.put(queued);
        }
    }

    /// Records that `rows` are locked, and blocks the queued commands that need one of them.
    pub(super) fn lock(&mut self, rows: &Footprint) {
        self.blocked.lock(rows);
        let blocked = &self.blocked;
        for queued in self.queue.remove_if(|queued| blocked.concerns(queued)) {
            self.block(queued, rows);
        }
    }

    /// Blocks `queued`, which was queued or in a lane, until those of the `rows` that it needs are
    /// free.
    pub(super) fn block(&mut self, queued: Queued, rows: &Footprint) {
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

    /// Has `command` decided before `deadline`. As far as is known, it touches `touches`.
    ///
    /// Dropping the future takes the command out of the queue. A command that is in a lane goes on.
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

    /// The same for an ask with a wait. Its answer may be a handle on its place in the line.
    pub(super) async fn ask(
        &self,
        command: Command,
        touches: Touches,
        wait: Wait,
        deadline: Instant,
    ) -> Result<Answer, Error> {
        let (answer, answered) = oneshot::channel();
        let is_queued = self.push(command, touches, wait, deadline, answer);
        // Fill the lanes even if the queue is full: a runtime that ended may have left it full.
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

    /// Queues a call, and the waiters that may be served by what it releases. Returns false if too
    /// many commands are queued.
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
            span: Span::current(),
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

    /// Takes a waiter out of its lines, and returns why it was not granted. Returns `None` if it is
    /// being served, or was.
    pub(super) fn leave(&self, place: Place) -> Option<Refusal> {
        let waiter = self.state().waiting.leave(place)?;
        self.call();
        Some(waiter.refused)
    }

    /// Queues the waiters that may be served now, and fills the free lanes.
    pub(super) fn call(&self) {
        self.state().call();
        self.fill_lanes();
    }

    /// Saves this process's entry in the lines of the semaphores where a batch is due for the entry
    /// alone.
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
        // Lanes are tasks. A call may be dropped outside a runtime, where no task can begin. The
        // next call begins them.
        if tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        loop {
            // The mutex is unlocked before the spawn: a runtime that ends drops the lane there, and
            // that drop locks it.
            let lane = {
                let State { queue, waiting, .. } = &mut *self.state();
                let Some(mut taken) = queue.take(|queued| admit(queued, waiting)) else {
                    break;
                };
                let looks = looks(&mut taken, waiting);
                taken.commands.extend(looks);
                Lane::new(self.clone(), taken)
            };
            let span = lane.span();
            tokio::spawn(lane.run().instrument(span));
        }
        self.poll_locked_rows();
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
