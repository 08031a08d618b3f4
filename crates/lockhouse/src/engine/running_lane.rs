//! The task of a [lane](super::lane): it sends the batch to the store, and the answers to the callers.
//!
//! If the database rejects a batch, or cannot name the locked row that the batch met, the task sends the commands one by one.

use std::collections::{BTreeSet, HashSet};
use std::mem;
use std::time::Duration;

use lockhouse_core::store::{Error as StoreError, Kind};
use lockhouse_core::{Command, Footprint, StillWaiting};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep};
use tracing::Instrument as _;

use super::Engine;
use super::apply::{apply_outcomes, apply_set_aside};
use super::lane::{self, Lacking, Lane, Next, SetAside};
use super::queue::LaneKind;
use super::retry::{self, OnLock};
use super::waiting::Answered;

/// How often a lane yields to the runtime's other tasks before its semaphores' next batch begins.
const MOST_YIELDS: u32 = 8;

/// The pause before a batch is tried again after a lock wait that named no rows.
const A_MOMENT: Duration = Duration::from_millis(10);

/// The task reads for at most so many asks whether they were granted before. The other asks wait for the lock.
const MOST_READ: usize = 16;

/// A lane whose batch is on its way. Dropping it frees its semaphores, also when its task panics or
/// is aborted.
pub(super) struct RunningLane {
    pub(super) engine: Engine,
    pub(super) lane: Lane,
}

impl RunningLane {
    /// Sends the batch to the store, and its answers to the callers. Returns whether any command was
    /// decided that names a semaphore.
    pub(super) async fn run(self) -> bool {
        let span = self.lane.span();
        self.send().instrument(span).await
    }

    async fn send(mut self) -> bool {
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
        let set_aside = self.lane.set_aside(locked, lacking, Instant::now());
        let is_some = !set_aside.is_empty();
        self.leave(set_aside);
        is_some
    }

    /// If the engine knows of any locked row, asks the store first which rows of the batch are locked.
    async fn block_beforehand(&mut self) {
        let rows = {
            let blocked = &mut self.engine.state().blocked;
            if blocked.is_empty() || self.lane.kind == LaneKind::Locked {
                return;
            }
            blocked.worth_a_look(&self.lane.batch.footprint)
        };
        let store = &*self.engine.store;
        match store.locked(&rows).await {
            Ok(locked) => drop(self.block(&locked).await),
            Err(error) => tracing::debug!(%error, "a batch could not look for locked rows"),
        }
    }

    /// Finds by a plain read which semaphores each waiting ask lacks. With `locked`, it reads only for asks that need one of
    /// those semaphores. It leaves out an ask whose id the store has a request for.
    async fn lacking(&self, locked: Option<&Footprint>) -> Lacking {
        let store = &*self.engine.store;
        let asks = self.lane.waiting_asks(locked, Instant::now());
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
        let engine = &self.engine;
        let responses = apply_set_aside(&mut engine.state(), &engine.shared.grants, set_aside);
        engine.respond(responses);
        engine.perform();
    }

    /// A grant that may have expired before its answer is sent is not reported as a grant (P8).
    /// Only the store knows whether it has. So the lane asks again until the store answers that the
    /// grant has expired, or that some of its TTL is left (P9). Each such call takes time, so grants that were
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
            let store = &*self.engine.store;
            let new: Vec<_> = match self
                .engine
                .retry
                .transact(store, &again, self.lane.made, deadline, OnLock::Retry)
                .await
            {
                Ok(outcomes) => outcomes.into_iter().map(Ok).collect(),
                Err(error) => {
                    let lost =
                        "a grant took longer than its TTL, and the next read failed; try again";
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
        let mut queued = self.engine.state().queue.len();
        for _ in 0..MOST_YIELDS {
            yield_now().await;
            let before = mem::replace(&mut queued, self.engine.state().queue.len());
            if queued <= before {
                return;
            }
        }
    }

    /// Sends each caller its answer.
    fn answer(&mut self, answers: Vec<Answered>) {
        let engine = &self.engine;
        let decided = self.lane.decided(answers);
        let responses = apply_outcomes(&mut engine.state(), &engine.shared.grants, decided);
        engine.respond(responses);
    }

    /// Decides the batch. Returns one result for each command that is still in it, since commands
    /// that need a locked row are taken out. If the store rejects the batch, each command is tried
    /// alone, so that only the faulty one fails.
    async fn decide(&mut self, deadline: Instant) -> Vec<Answered> {
        self.block_beforehand().await;
        while !self.lane.batch.commands.is_empty() {
            let store = &*self.engine.store;
            let decided = async {
                match self.lane.is_unasked() {
                    true => {
                        retry::transact_once(store, &self.lane.batch, self.lane.made, deadline)
                            .await
                    }
                    false => {
                        let on_lock = OnLock::Report;
                        self.engine
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
                Kind::Rejected => tracing::warn!(%error, many, "the database rejected a batch"),
                _ => tracing::debug!(%error, many, "a batch failed"),
            }
            match self.lane.after(&error, Instant::now() < deadline) {
                Next::StepAside => {
                    let lacking = self.lacking(None).await;
                    let set_aside = self.lane.step_aside(lacking, Instant::now());
                    self.leave(set_aside);
                    sleep(A_MOMENT).await;
                }
                Next::Block if self.block(error.locked()).await => {}
                Next::Block | Next::OneByOne => return self.decide_one_by_one(deadline).await,
                Next::Answer => return lane::shared(error, many).collect(),
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
            let store = &*self.engine.store;
            let outcome = self
                .engine
                .retry
                .transact(store, &alone, self.lane.made, deadline, OnLock::Report)
                .await;
            let answer = outcome.map(|mut outcomes| outcomes.remove(0));
            if let (Command::Acquire { ask, turn }, Ok(Err(refusal))) = (&command, &answer)
                && turn.waits
                && refusal.lacks_room()
            {
                let keys = self.engine.state().waiting.keys_in(refusal);
                waiting.add(ask, turn, &keys);
            }
            results.push(answer);
        }
        let (set_aside, answers) = self.lane.set_aside_one_by_one(results);
        self.leave(set_aside);
        answers
    }
}

impl Drop for RunningLane {
    fn drop(&mut self) {
        let unanswered = self.lane.len();
        if unanswered > 0 {
            let error = StoreError::new(
                Kind::Unknown,
                "the runtime of the call to the store has ended; try again",
            );
            self.answer(lane::shared(error, unanswered).collect());
        }
        let Lane {
            kind, semaphores, ..
        } = &self.lane;
        self.engine.state().queue.end(*kind, semaphores);
        // A runtime that is shutting down takes no more lanes. On another runtime, the next call
        // fills the lanes.
        if unanswered == 0 || std::thread::panicking() {
            self.engine.perform();
        }
    }
}
