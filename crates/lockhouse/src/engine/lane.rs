//! A lane: one batch on its way to the store and back.
//!
//! If the store rejects a batch, the lane tries its commands one by one. If a lock wait times out,
//! the lane takes the commands that need a locked row out of the batch ([blocked](super::blocked))
//! and goes on with the rest at once. Asks with a wait, for which a plain read finds no room,
//! [stand in line](crowd) instead.

mod crowd;

use std::collections::{BTreeMap, HashSet};
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use lockhouse_core::store::{Batch, Error as StoreError, Kind};
use lockhouse_core::{Command, Count, Footprint, Place, Reply, SemaphoreName};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep};
use tracing::Span;

use super::apply::{Decided, apply_outcomes};
use super::driver::Driver;
use super::queue::{LaneKind, Queued, Taken, Ticket};
use super::reply_to::ReplyTo;
use super::retry::{self, OnLock};
use super::waiting::Answered;

/// How often a lane yields to the runtime's other tasks before its semaphores' next batch begins.
const MOST_YIELDS: u32 = 8;

/// The pause before a batch is tried again after a lock wait that named no rows.
const A_MOMENT: Duration = Duration::from_millis(10);

/// A batch on its way. Dropping it frees its semaphores, also when its task panics or is aborted.
pub(super) struct Lane {
    driver: Driver,
    kind: LaneKind,
    /// The semaphores of this lane. No other lane has them.
    semaphores: HashSet<SemaphoreName>,
    batch: Batch,
    /// When the batch was made: its waiting times are as of then.
    made: Instant,
    /// The rest of each command, in the order of the batch. Empty once they are answered.
    asked: Vec<Asked>,
}

/// The parts of a queued command beside the command itself, which is in the batch.
struct Asked {
    ticket: Ticket,
    touches: Vec<SemaphoreName>,
    frees: Vec<(SemaphoreName, Count)>,
    reply_to: ReplyTo,
}

impl Asked {
    fn queued(self, command: Command) -> Queued {
        Queued {
            ticket: self.ticket,
            command,
            touches: self.touches,
            frees: self.frees,
            reply_to: self.reply_to,
        }
    }
}

impl Lane {
    pub(super) fn new(driver: Driver, taken: Taken) -> Self {
        let Taken {
            kind,
            commands,
            semaphores,
        } = taken;
        let mut lane = Self {
            driver,
            kind,
            semaphores,
            batch: batch(Vec::new(), &HashSet::new()),
            made: Instant::now(),
            asked: Vec::new(),
        };
        lane.fill(commands);
        lane
    }

    fn fill(&mut self, commands: Vec<Queued>) {
        let split = |queued: Queued| {
            let Queued {
                ticket,
                command,
                touches,
                frees,
                reply_to,
            } = queued;
            let asked = Asked {
                ticket,
                touches,
                frees,
                reply_to,
            };
            (command, asked)
        };
        let (commands, asked) = commands.into_iter().map(split).unzip();
        self.batch = batch(commands, &self.semaphores);
        self.asked = asked;
    }

    /// Takes all commands out of the batch.
    fn empty(&mut self) -> impl Iterator<Item = Queued> + use<> {
        let commands = mem::take(&mut self.batch.commands).into_iter();
        let asked = mem::take(&mut self.asked);
        commands
            .zip(asked)
            .map(|(command, asked)| asked.queued(command))
    }

    /// The span of the batch. It is in the trace of its first call, and has a link to each of the others.
    pub(super) fn span(&self) -> Span {
        let mut calls = self.asked.iter().filter_map(|asked| asked.reply_to.span());
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

    pub(super) async fn run(mut self) {
        let (begun, deadline) = (Instant::now(), retry::deadline());
        let mut answers = self.decide(deadline).await;
        self.ask_again_for_the_late(&mut answers, begun, deadline)
            .await;
        self.answer(answers.into_iter());
        self.gather().await;
    }

    /// Blocks the commands that need one of the `locked` rows, or has them wait in line. Returns
    /// whether there were any. Semaphores that no other command of the batch touches are free for
    /// other lanes.
    async fn block(&mut self, locked: &Footprint) -> bool {
        let lacking = self.lacking_of(locked).await;
        let (blocked, rest): (Vec<_>, Vec<_>) =
            self.empty().partition(|queued| queued.needs_any(locked));
        let is_some = !blocked.is_empty();
        let blocked = self.park(blocked, lacking);
        self.leave(blocked.into_iter().map(|queued| (queued, locked.clone())));
        self.fill_with_rest(rest);
        is_some
    }

    /// Whether no caller waits for an answer: all commands are the engine's, which will send them
    /// again.
    fn is_unasked(&self) -> bool {
        let mut asked = self.asked.iter();
        asked.all(|asked| matches!(asked.reply_to, ReplyTo::Engine))
    }

    /// While some row is known to be locked, others may be too. Then the batch looks for locked
    /// rows before it waits for them.
    async fn block_beforehand(&mut self) {
        if self.driver.state().blocked.is_empty() {
            return;
        }
        let store = &*self.driver.store;
        match store.locked(&self.batch.footprint).await {
            Ok(locked) => drop(self.block(&locked).await),
            Err(error) => tracing::debug!(%error, "a batch could not look for locked rows"),
        }
    }

    /// Blocks each of the commands, and records the rows that are locked.
    fn leave(&self, blocked: impl Iterator<Item = (Queued, Footprint)>) {
        let mut state = self.driver.state();
        for (queued, locked) in blocked {
            state.lock(&locked);
            state.block(queued, &locked);
        }
        state.call();
        drop(state);
        self.driver.fill_lanes();
    }

    fn fill_with_rest(&mut self, rest: Vec<Queued>) {
        let looked_at = rest.iter().filter_map(|queued| match &queued.command {
            Command::Stand { name, .. } => Some(name),
            _ => None,
        });
        let touched = rest.iter().flat_map(|queued| &queued.touches);
        let touched: HashSet<_> = touched.chain(looked_at).collect();
        let is_freed = |name: &SemaphoreName| !touched.contains(name);
        let freed: HashSet<_> = self.semaphores.extract_if(is_freed).collect();
        self.driver.state().queue.free(&freed);
        self.fill(rest);
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
            let all = self.batch.commands.iter().zip(answers);
            let (again, late): (Vec<_>, Vec<_>) = all
                .filter(|(_, (answer, begun))| may_have_expired(answer, begun.elapsed()))
                .map(|(command, late)| (command.clone(), late))
                .unzip();
            if again.is_empty() {
                return;
            }
            let now = Instant::now();
            // No semaphores that only other commands of the batch need: waiting for those may have
            // made these late.
            let again = batch(again, &HashSet::new());
            let many = late.len();
            let store = &*self.driver.store;
            let new: Vec<_> = match retry::transact(
                store,
                &self.driver.shared.retries,
                &again,
                self.made,
                deadline,
                OnLock::Retry,
            )
            .await
            {
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
    fn answer(&mut self, answers: impl Iterator<Item = Answered>) {
        let decided = self.empty().zip(answers);
        let decided = decided.map(|(queued, answer)| Decided {
            command: queued.command,
            reply_to: queued.reply_to,
            frees: queued.frees,
            answer,
        });
        // Sent without holding the mutex: a caller that is dropped together with its answer locks
        // it.
        let told = apply_outcomes(&self.driver, &self.driver.shared.grants, decided);
        told.into_iter().for_each(|response| response.send());
    }

    /// Decides the batch. Returns one result for each command that is still in it, since commands
    /// that need a locked row are taken out. If the store rejects the batch, each command is tried
    /// alone, so that only the faulty one fails.
    async fn decide(&mut self, deadline: Instant) -> Vec<Answered> {
        self.block_beforehand().await;
        let mut is_again = false;
        while !self.batch.commands.is_empty() {
            let store = &*self.driver.store;
            let decided = async {
                match self.is_unasked() {
                    true => retry::transact_once(store, &self.batch, self.made, deadline).await,
                    false => {
                        let on_lock = OnLock::Report;
                        retry::transact(
                            store,
                            &self.driver.shared.retries,
                            &self.batch,
                            self.made,
                            deadline,
                            on_lock,
                        )
                        .await
                    }
                }
            };
            let error = match decided.await {
                Ok(outcomes) => return outcomes.into_iter().map(Ok).collect(),
                Err(error) => error,
            };
            let many = self.batch.commands.len();
            match error.kind() {
                Kind::Locked if Instant::now() < deadline && !self.is_unasked() => {
                    tracing::debug!(%error, many, "a batch met locked rows");
                    let is_named = !error.locked().is_empty();
                    // The rows may be free again, or the lock has no name.
                    if !is_named && !is_again {
                        is_again = true;
                        self.step_aside().await;
                        sleep(A_MOMENT).await;
                    } else if !is_named || !self.block(error.locked()).await {
                        return self.decide_one_by_one(deadline).await;
                    }
                }
                Kind::Rejected if many > 1 => {
                    tracing::warn!(%error, many, "a batch was turned down, trying one by one");
                    return self.decide_one_by_one(deadline).await;
                }
                _ => return shared(error, many).collect(),
            }
        }
        Vec::new()
    }

    /// Tries each command alone. A refused ask that goes on waiting comes before the asks behind
    /// it, as it does in one batch.
    async fn decide_one_by_one(&mut self, deadline: Instant) -> Vec<Answered> {
        let mut results = Vec::new();
        let mut waits: BTreeMap<SemaphoreName, Place> = BTreeMap::new();
        for command in &self.batch.commands {
            let mut command = command.clone();
            if let Command::Acquire { ask, turn } = &mut command {
                let is_behind = |name: &&SemaphoreName| {
                    let first = waits.get(*name);
                    first.is_some_and(|first| *first < turn.place)
                };
                let names = ask.permits().map(|(name, _)| name);
                turn.behind.extend(names.filter(is_behind).cloned());
            }
            let alone = batch(vec![command.clone()], &HashSet::new());
            let store = &*self.driver.store;
            let outcome = retry::transact(
                store,
                &self.driver.shared.retries,
                &alone,
                self.made,
                deadline,
                OnLock::Report,
            )
            .await;
            let answer = outcome.map(|mut outcomes| outcomes.remove(0));
            if let (Command::Acquire { ask, turn }, Ok(Err(refusal))) = (&command, &answer)
                && turn.waits
                && refusal.lacks_room()
            {
                let reserved = self.driver.state().waiting.reserved(ask, refusal);
                for name in reserved {
                    let first = waits.entry(name).or_insert(turn.place);
                    *first = turn.place.min(*first);
                }
            }
            results.push(answer);
        }
        self.block_one_by_one(results.into_iter())
    }

    /// Blocks the commands that met a locked row when they were tried alone. An example is a late
    /// renewal, which needs a semaphore that it does not name. A command gets the error if the store
    /// cannot name the lock.
    fn block_one_by_one(&mut self, results: impl Iterator<Item = Answered>) -> Vec<Answered> {
        let (mut blocked, mut rest, mut answers) = (Vec::new(), Vec::new(), Vec::new());
        for (queued, answer) in self.empty().zip(results) {
            match answer {
                Err(error) if !error.locked().is_empty() => blocked.push((queued, error)),
                Err(error) if error.kind() == Kind::Locked => {
                    tracing::debug!(%error, "a command met a lock that has no name");
                    rest.push(queued);
                    answers.push(Err(retry::told(error)));
                }
                answer => {
                    rest.push(queued);
                    answers.push(answer);
                }
            }
        }
        self.leave(
            blocked
                .into_iter()
                .map(|(queued, error)| (queued, error.locked().clone())),
        );
        self.fill_with_rest(rest);
        answers
    }
}

/// `also` are semaphores that `commands` are known to need though they do not name them. The store
/// finds any others itself.
fn batch(commands: Vec<Command>, also: &HashSet<SemaphoreName>) -> Batch {
    let footprint = Footprint::of(&commands, also);
    Batch {
        commands,
        footprint,
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        let was_cut_off = !self.asked.is_empty();
        if was_cut_off {
            let error = StoreError::new(Kind::Unknown, "the task that spoke to the store ended");
            self.answer(shared(error, self.asked.len()));
        }
        self.driver.state().queue.end(self.kind, &self.semaphores);
        // A runtime that is shutting down takes no more lanes. On another runtime, the next call
        // fills the lanes.
        if !was_cut_off || std::thread::panicking() {
            self.driver.fill_lanes();
        }
    }
}

/// Whether `answer` is a grant that may have expired, since the answer took so long.
fn may_have_expired(answer: &Answered, took: Duration) -> bool {
    match answer {
        Ok(Ok(Reply::Granted { lasts, .. })) => lasts.is_some_and(|lasts| lasts <= took),
        _ => false,
    }
}

/// The `new` answer, with the `first` answer's word on whether this call granted it.
fn as_granted(first: &Answered, mut new: Answered) -> Answered {
    if let (Ok(Ok(Reply::Granted { now: was, .. })), Ok(Ok(Reply::Granted { now, .. }))) =
        (first, &mut new)
    {
        *now = *was;
    }
    new
}

/// The same error for each of `many` callers.
fn shared(error: StoreError, many: usize) -> impl Iterator<Item = Answered> {
    let error = Arc::new(retry::told(error));
    (0..many).map(move |_| {
        Err(StoreError::new(error.kind(), "the batch failed").caused_by(Arc::clone(&error)))
    })
}
