//! A lane: one batch on its way to the store and back.
//!
//! A batch that the store turns down is tried command by command. A batch whose lock wait timed out takes the commands out
//! that need a locked row ([blocked](super::blocked)), and goes on with the rest at once. Those of them that wait, and that a
//! plain read finds no room for, [stand in line](crowd).

mod crowd;
mod unmade;

use std::collections::HashSet;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use lockhouse_core::store::{Batch, Error as StoreError, Kind};
use lockhouse_core::{Command, Count, Footprint, Reply, SemaphoreName};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep};

use super::apply::{Decided, apply_outcomes};
use super::driver::Driver;
use super::queue::{LaneKind, Queued, Taken, Ticket};
use super::reply_to::ReplyTo;
use super::retry::{self, OnLock};
use super::waiting::Answered;

/// How often the runtime's other tasks are let go first, before a semaphore's next batch begins.
const MOST_YIELDS: u32 = 8;

/// The pause before a batch is tried again whose rows are free again.
const A_MOMENT: Duration = Duration::from_millis(10);

/// A batch on its way. Dropping it, however that comes about, frees its semaphores.
pub(super) struct Lane {
    driver: Driver,
    kind: LaneKind,
    /// Which no other lane has.
    semaphores: HashSet<SemaphoreName>,
    batch: Batch,
    /// When the batch said how long its callers had waited.
    made: Instant,
    /// What else there is to each command. None are left once they are answered.
    asked: Vec<Asked>,
}

/// The result of trying a batch.
enum Tried {
    /// One answer for each command.
    Together(Vec<Answered>),
    /// The store takes it only command by command, if at all.
    InVain,
}

/// A command of a batch, without what the batch has of it.
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

    /// Takes the commands out.
    fn empty(&mut self) -> impl Iterator<Item = Queued> + use<> {
        let commands = mem::take(&mut self.batch.commands).into_iter();
        let asked = mem::take(&mut self.asked);
        commands
            .zip(asked)
            .map(|(command, asked)| asked.queued(command))
    }

    pub(super) async fn run(mut self) {
        let (begun, deadline) = (Instant::now(), retry::deadline());
        match self.decide(deadline).await {
            Tried::Together(mut answers) => {
                self.ask_again_for_the_late(&mut answers, begun, deadline)
                    .await;
                self.answer(answers.into_iter());
            }
            Tried::InVain => self.decide_one_by_one(begun, deadline).await,
        }
        self.gather().await;
    }

    /// Sets those commands aside that need one of the `locked` rows, or has them wait in line; whether there were any.
    /// Nobody waits for them in the lines of the semaphores that no other command of the batch touches.
    async fn block(&mut self, locked: &Footprint) -> bool {
        let lacking = self.lacking(locked).await;
        let unmade = self.unmade(locked).await;
        let (blocked, rest): (Vec<_>, Vec<_>) = self
            .empty()
            .partition(|queued| unmade.needs(queued).overlaps(locked));
        let is_some = !blocked.is_empty();
        let blocked = self.park(blocked, lacking);
        let blocked = blocked.into_iter().map(|queued| {
            let mut rows = locked.clone();
            rows.intersect(&unmade.needs(&queued));
            (queued, rows)
        });
        self.leave(locked, blocked);
        self.fill_with_rest(rest);
        is_some
    }

    /// Whether nobody waits for an answer: the engine asks for itself, and will again.
    fn is_unasked(&self) -> bool {
        let mut asked = self.asked.iter();
        asked.all(|asked| matches!(asked.reply_to, ReplyTo::Engine))
    }

    /// Where one row is locked there may be others: then a batch looks before it waits.
    async fn block_beforehand(&mut self) {
        let mut rows = self.batch.footprint.clone();
        {
            let blocked = &self.driver.state().blocked;
            if blocked.is_empty() {
                return;
            }
            rows.templates |= blocked.has_template();
        }
        match self.driver.store.locked(&rows).await {
            Ok(locked) => drop(self.block(&locked).await),
            Err(error) => tracing::debug!(%error, "a batch could not look for locked rows"),
        }
    }

    /// Takes note that `locked` are locked, and sets aside each of `blocked` until the rows are free that it needs.
    fn leave(&self, locked: &Footprint, blocked: impl IntoIterator<Item = (Queued, Footprint)>) {
        let mut state = self.driver.state();
        state.lock(locked);
        for (queued, rows) in blocked {
            state.block(queued, &rows);
        }
        state.call();
        drop(state);
        self.driver.fill_lanes();
    }

    fn fill_with_rest(&mut self, rest: Vec<Queued>) {
        let touched: HashSet<_> = rest.iter().flat_map(|queued| &queued.touches).collect();
        let is_freed = |name: &SemaphoreName| !touched.contains(name);
        let freed: HashSet<_> = self.semaphores.extract_if(is_freed).collect();
        self.driver.state().queue.free(&freed);
        self.fill(rest);
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
            let again = batch(again, &HashSet::new());
            let many = late.len();
            let store = &*self.driver.store;
            let new: Vec<_> =
                match retry::transact(store, &again, self.made, deadline, OnLock::Retry).await {
                    Ok(outcomes) => outcomes.into_iter().map(Ok).collect(),
                    Err(error) => {
                        let lost = "a grant took longer than it lasts, and asking again failed";
                        shared(StoreError::new(Kind::Unknown, lost).caused_by(error), many)
                            .collect()
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
        let mut queued = self.driver.state().queue.len();
        for _ in 0..MOST_YIELDS {
            yield_now().await;
            let before = mem::replace(&mut queued, self.driver.state().queue.len());
            if queued <= before {
                return;
            }
        }
    }

    /// Gives each who asked its answer.
    fn answer(&mut self, answers: impl Iterator<Item = Answered>) {
        let decided = self.empty().zip(answers);
        self.tell(decided);
    }

    fn tell(&self, decided: impl IntoIterator<Item = (Queued, Answered)>) {
        let decided = decided.into_iter().map(|(queued, answer)| Decided {
            command: queued.command,
            reply_to: queued.reply_to,
            frees: queued.frees,
            answer,
        });
        // Whoever went away does not mind. Who is dropped with an answer locks, so not under the lock.
        let told = apply_outcomes(&self.driver, &self.driver.shared.grants, decided);
        told.into_iter().for_each(|response| response.send());
    }

    /// One result for each command that is still in the batch: those that need a locked row are set aside. If
    /// the store turns a batch down, each command is to be tried on its own, so that only the one to blame fails.
    async fn decide(&mut self, deadline: Instant) -> Tried {
        self.block_beforehand().await;
        let mut is_again = false;
        while !self.batch.commands.is_empty() {
            let store = &*self.driver.store;
            let decided = async {
                match self.is_unasked() {
                    true => retry::transact_once(store, &self.batch, deadline).await,
                    false => {
                        let on_lock = OnLock::Report;
                        retry::transact(store, &self.batch, self.made, deadline, on_lock).await
                    }
                }
            };
            let error = match decided.await {
                Ok(outcomes) => return Tried::Together(outcomes.into_iter().map(Ok).collect()),
                Err(error) => error,
            };
            let many = self.batch.commands.len();
            match error.kind() {
                Kind::Locked if Instant::now() < deadline && !self.is_unasked() => {
                    tracing::debug!(%error, many, "a batch met locked rows");
                    let is_named = !error.locked().is_empty();
                    // The rows may be free again, or it was a gap between rows.
                    if !is_named && !is_again {
                        is_again = true;
                        self.step_aside().await;
                        sleep(A_MOMENT).await;
                    } else if !is_named || !self.block(error.locked()).await {
                        return Tried::InVain;
                    }
                }
                Kind::Rejected if many > 1 => {
                    tracing::warn!(%error, many, "a batch was turned down, trying one by one");
                    return Tried::InVain;
                }
                _ => return Tried::Together(shared(error, many).collect()),
            }
        }
        Tried::Together(Vec::new())
    }

    /// Tries the commands in their order, each in a transaction of its own. An answer is applied before the next command
    /// is tried, so an ask that is refused and waits is in the waiting line by then, and the next one's turn comes from that
    /// line (P11).
    ///
    /// A command is set aside that meets a locked row, as a renewal does that comes too late and needs a semaphore which
    /// it does not name. A new id that sorts into a gap which is locked is answered with the error: no poll would find the gap.
    async fn decide_one_by_one(&mut self, begun: Instant, deadline: Instant) {
        while !self.asked.is_empty() {
            if let Command::Acquire { ask, turn } = &mut self.batch.commands[0] {
                turn.behind = self.driver.state().waiting.behind(ask, turn.place);
            }
            let alone = batch(vec![self.batch.commands[0].clone()], &HashSet::new());
            let store = &*self.driver.store;
            let outcome = retry::transact(store, &alone, self.made, deadline, OnLock::Report).await;
            let mut answer = [outcome.map(|mut outcomes| outcomes.remove(0))];
            self.ask_again_for_the_late(&mut answer, begun, deadline)
                .await;
            let [answer] = answer;
            let command = self.batch.commands.remove(0);
            let queued = self.asked.remove(0).queued(command);
            match answer {
                Err(error) if !error.locked().is_empty() => {
                    let rows = error.locked();
                    self.leave(rows, [(queued, rows.clone())]);
                }
                answer => self.tell([(queued, answer)]),
            }
        }
    }
}

/// `also` are semaphores that `commands` are known to need, though they do not name them. What isn't said
/// there the store finds out.
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
        // A runtime that ends takes no other lanes. Those on another begin with the next call there.
        if !was_cut_off || std::thread::panicking() {
            self.driver.fill_lanes();
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
