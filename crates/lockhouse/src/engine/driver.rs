//! The driver: it sends batches to the store, and performs what the state machines return.
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
//!
//! If the store rejects a batch, its commands are tried one by one.

use std::collections::{BTreeSet, HashSet};
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockhouse_core::store::{Error as StoreError, FullStore, Kind};
use lockhouse_core::{Command, Footprint, PlaceInLine, Refusal, StillWaiting};
use tokio::sync::oneshot;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep};
use tracing::Instrument as _;

use super::apply::{Response, apply_outcomes, apply_set_aside};
use super::grant_cache::GrantCache;
use super::lane::{self, Lacking, Lane, SetAside};
use super::queue::{LaneKind, Touches};
use super::reply_to::Answer;
use super::retry::{self, OnLock, Retry};
use super::state::State;
use super::waiting::{Answered, Wait};
use crate::Error;

/// How often a lane yields to the runtime's other tasks before its semaphores' next batch begins.
const MOST_YIELDS: u32 = 8;

/// The pause before a batch is tried again after a lock wait that named no rows.
const A_MOMENT: Duration = Duration::from_millis(10);

/// How many requests are read at most, to find out whether they were granted before. The others wait for the lock.
const MOST_READ: usize = 16;

#[derive(Clone, Debug)]
pub(super) struct Driver {
    pub(super) store: Arc<dyn FullStore>,
    pub(super) grants: Arc<GrantCache>,
    pub(super) retry: Arc<Retry>,
    state: Arc<Mutex<State>>,
}

impl Driver {
    pub(super) fn new(store: Arc<dyn FullStore>, retry: Arc<Retry>) -> Self {
        let state = State::new(store.max_batch());
        Self {
            store,
            grants: Arc::new(GrantCache::new()),
            retry,
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Queues a call, and the waiters that may be served by what it releases. Returns the place in
    /// the line of an ask that may wait.
    ///
    /// # Errors
    /// [`Error::Overloaded`] if too many commands are queued.
    pub(super) fn enqueue(
        &self,
        command: Command,
        touches: Touches,
        wait: Wait,
        deadline: Instant,
        answer: oneshot::Sender<Answer>,
    ) -> Result<Option<PlaceInLine>, Error> {
        let mut state = self.state();
        let place = state.enqueue(command, touches, wait, deadline, answer);
        drop(state);
        // Fill the lanes even if the queue is full: a runtime that ended may have left it full.
        self.fill_lanes();
        place
    }

    /// Takes a waiter out of its lines, and returns why it was not granted. Returns `None` if it is
    /// being served, or was.
    pub(super) fn leave(&self, place: PlaceInLine) -> Option<Refusal> {
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
        self.state().save_due(Instant::now());
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
            let Some(lane) = self.state().take() else {
                break;
            };
            let span = lane.span();
            let running = Running {
                driver: self.clone(),
                lane,
            };
            tokio::spawn(running.run().instrument(span));
        }
        self.poll_locked_rows();
    }

    /// Sends the batch of `lane` to the store, and its answers to the callers. Returns whether any
    /// command was decided that names a semaphore.
    pub(super) async fn run_lane(&self, lane: Lane) -> bool {
        let span = lane.span();
        let running = Running {
            driver: self.clone(),
            lane,
        };
        running.run().instrument(span).await
    }
}

/// Sends the responses. This is done without holding the mutex: a caller that is dropped together
/// with its answer locks it.
fn send(responses: Vec<Response>) {
    responses.into_iter().for_each(Response::send);
}

/// A lane whose batch is on its way. Dropping it frees its semaphores, also when its task panics or
/// is aborted.
struct Running {
    driver: Driver,
    lane: Lane,
}

impl Running {
    async fn run(mut self) -> bool {
        let (begun, deadline) = (Instant::now(), retry::deadline());
        let mut answers = self.decide(deadline).await;
        self.ask_again_for_the_late(&mut answers, begun, deadline)
            .await;
        let commands = self.lane.batch.commands.iter().zip(&answers);
        let is_decided = commands
            .into_iter()
            .any(|(command, answer)| answer.is_ok() && command.semaphores().next().is_some());
        self.answer(answers);
        self.gather().await;
        is_decided
    }

    /// Blocks the commands that need one of the `locked` rows, or has them wait in line. Returns
    /// whether there were any. Semaphores that no other command of the batch touches are free for
    /// other lanes.
    async fn block(&mut self, locked: &Footprint) -> bool {
        let lacking = self.lacking(Some(locked)).await;
        let set_aside = self.lane.set_aside(locked, lacking);
        let is_some = !set_aside.is_empty();
        self.leave(set_aside);
        is_some
    }

    /// While some row is known to be locked, others may be too. Then the batch looks for locked
    /// rows before it waits for them.
    async fn block_beforehand(&mut self) {
        let rows = {
            let blocked = &mut self.driver.state().blocked;
            if blocked.is_empty() || self.lane.kind == LaneKind::Locked {
                return;
            }
            blocked.worth_a_look(&self.lane.batch.footprint)
        };
        let store = &*self.driver.store;
        match store.locked(&rows).await {
            Ok(locked) => drop(self.block(&locked).await),
            Err(error) => tracing::debug!(%error, "a batch could not look for locked rows"),
        }
    }

    /// The semaphores that each ask lacks, by a plain read: of the asks that wait and need one of the
    /// `locked` semaphores, or of all. One that may have been granted before, by a call with the same
    /// id, is not among them.
    async fn lacking(&self, locked: Option<&Footprint>) -> Lacking {
        let store = &*self.driver.store;
        let asks = self.lane.waiting_asks(locked);
        let permits = asks.iter().flat_map(|ask| ask.permits());
        let names: BTreeSet<_> = permits.map(|(name, _)| name.clone()).collect();
        let names: Vec<_> = names.into_iter().collect();
        let mut lacking = Lacking::default();
        if names.is_empty() {
            return lacking;
        }
        match store.named(&names).await {
            Ok(semaphores) => lacking.semaphores = semaphores,
            Err(error) => {
                tracing::debug!(%error, "semaphores that are locked could not be read");
                return lacking;
            }
        }
        let lack = asks.into_iter().filter_map(|ask| {
            let lacks = lane::lacks(ask, &lacking.semaphores);
            (!lacks.is_empty()).then_some((ask, lacks))
        });
        for (ask, lacks) in lack.take(MOST_READ) {
            if let Ok(None) = store.request(&ask.external_id).await {
                lacking.by_id.insert(ask.external_id.clone(), lacks);
            }
        }
        lacking
    }

    /// Blocks the commands that were set aside, or has them stand in line.
    fn leave(&self, set_aside: SetAside) {
        let driver = &self.driver;
        let responses = apply_set_aside(&mut driver.state(), &driver.grants, set_aside);
        send(responses);
        driver.fill_lanes();
    }

    /// A grant that may have expired before its answer is sent is not reported as a grant (P8).
    /// Only the store knows whether it has. So the lane asks the store until the answer is that the
    /// grant has expired or that time is left (P9). Each such call takes time, so grants that were
    /// not late before may be late after it.
    async fn ask_again_for_the_late(
        &self,
        answers: &mut [Answered],
        begun: Instant,
        deadline: Instant,
    ) {
        let mut begun = vec![begun; answers.len()];
        loop {
            let answers = answers.iter_mut().zip(&mut begun);
            let all = self.lane.batch.commands.iter().zip(answers);
            let (again, late): (Vec<_>, Vec<_>) = all
                .filter(|(_, (answer, begun))| lane::may_have_expired(answer, begun.elapsed()))
                .map(|(command, late)| (command.clone(), late))
                .unzip();
            if again.is_empty() {
                return;
            }
            let now = Instant::now();
            // No semaphores that only other commands of the batch need: waiting for those may have
            // made these late.
            let again = lane::batch(again, &HashSet::new());
            let many = late.len();
            let store = &*self.driver.store;
            let new: Vec<_> = match self
                .driver
                .retry
                .transact(store, &again, self.lane.made, deadline, OnLock::Retry)
                .await
            {
                Ok(outcomes) => outcomes.into_iter().map(Ok).collect(),
                Err(error) => {
                    let lost = "a grant took longer than it lasts, and asking again failed";
                    lane::shared(StoreError::new(Kind::Unknown, lost).caused_by(error), many)
                        .collect()
                }
            };
            for ((answer, begun), new) in late.into_iter().zip(new) {
                *begun = now;
                *answer = lane::as_granted(answer, new);
            }
        }
    }

    /// Gives callers that call again at once the time to join the next batch, together with the
    /// calls that came meanwhile. Otherwise the callers would split into two batches that take
    /// turns. Returns as soon as no call comes.
    async fn gather(&self) {
        let mut queued = self.driver.state().queue.len();
        for _ in 0..MOST_YIELDS {
            yield_now().await;
            let before = mem::replace(&mut queued, self.driver.state().queue.len());
            if queued <= before {
                return;
            }
        }
    }

    /// Sends each caller its answer.
    fn answer(&mut self, answers: Vec<Answered>) {
        let driver = &self.driver;
        let decided = self.lane.decided(answers);
        let responses = apply_outcomes(&mut driver.state(), &driver.grants, decided);
        send(responses);
    }

    /// Decides the batch. Returns one result for each command that is still in it, since commands
    /// that need a locked row are taken out. If the store rejects the batch, each command is tried
    /// alone, so that only the faulty one fails.
    async fn decide(&mut self, deadline: Instant) -> Vec<Answered> {
        self.block_beforehand().await;
        let mut is_again = false;
        while !self.lane.batch.commands.is_empty() {
            let store = &*self.driver.store;
            let decided = async {
                match self.lane.is_unasked() {
                    true => {
                        retry::transact_once(store, &self.lane.batch, self.lane.made, deadline)
                            .await
                    }
                    false => {
                        let on_lock = OnLock::Report;
                        self.driver
                            .retry
                            .transact(store, &self.lane.batch, self.lane.made, deadline, on_lock)
                            .await
                    }
                }
            };
            let error = match decided.await {
                Ok(outcomes) => return outcomes.into_iter().map(Ok).collect(),
                Err(error) => error,
            };
            let many = self.lane.batch.commands.len();
            match error.kind() {
                Kind::Locked if Instant::now() < deadline && !self.lane.is_unasked() => {
                    tracing::debug!(%error, many, "a batch met locked rows");
                    let is_named = !error.locked().is_empty();
                    // The rows may be free again, or the lock has no name.
                    if !is_named && !is_again {
                        is_again = true;
                        let lacking = self.lacking(None).await;
                        let set_aside = self.lane.step_aside(lacking);
                        self.leave(set_aside);
                        sleep(A_MOMENT).await;
                    } else if !is_named || !self.block(error.locked()).await {
                        return self.decide_one_by_one(deadline).await;
                    }
                }
                Kind::Rejected if many > 1 => {
                    tracing::warn!(%error, many, "the database rejected a batch: its commands are tried one by one");
                    return self.decide_one_by_one(deadline).await;
                }
                _ => return lane::shared(error, many).collect(),
            }
        }
        Vec::new()
    }

    /// Tries each command alone. A refused ask that goes on waiting comes before the asks behind
    /// it, as it does in one batch.
    async fn decide_one_by_one(&mut self, deadline: Instant) -> Vec<Answered> {
        let mut results = Vec::new();
        let mut waiting = StillWaiting::default();
        for command in &self.lane.batch.commands {
            let mut command = command.clone();
            if let Command::Acquire { ask, turn } = &mut command {
                turn.behind.extend(waiting.ahead_of(ask, turn));
            }
            let alone = lane::batch(vec![command.clone()], &HashSet::new());
            let store = &*self.driver.store;
            let outcome = self
                .driver
                .retry
                .transact(store, &alone, self.lane.made, deadline, OnLock::Report)
                .await;
            let answer = outcome.map(|mut outcomes| outcomes.remove(0));
            if let (Command::Acquire { ask, turn }, Ok(Err(refusal))) = (&command, &answer)
                && turn.waits
                && refusal.lacks_room()
            {
                let keys = self.driver.state().waiting.keys_in(refusal);
                waiting.add(ask, turn, &keys);
            }
            results.push(answer);
        }
        let (set_aside, answers) = self.lane.set_aside_one_by_one(results);
        self.leave(set_aside);
        answers
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let unanswered = self.lane.len();
        if unanswered > 0 {
            let error = StoreError::new(Kind::Unknown, "the task that spoke to the store ended");
            self.answer(lane::shared(error, unanswered).collect());
        }
        let Lane {
            kind, semaphores, ..
        } = &self.lane;
        self.driver.state().queue.end(*kind, semaphores);
        // A runtime that is shutting down takes no more lanes. On another runtime, the next call
        // fills the lanes.
        if unanswered == 0 || std::thread::panicking() {
            self.driver.fill_lanes();
        }
    }
}
