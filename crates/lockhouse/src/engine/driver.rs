//! The driver: it performs the events of the engine's [state](State), and takes each [lane](Lane) through the store.
//!
//! This is the one place where the state machines meet I/O. A change of the state goes through [`Driver::update`], which
//! performs every event that comes of it before it returns.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lockhouse_core::store::{Error as StoreError, FullStore, Kind};
use lockhouse_core::{Command, Footprint, Outcome, Place, ProcessId, Refusal};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, timeout_at};

use super::grant_cache::GrantCache;
use super::lane::{Decided, Lane, Step, TakenOut};
use super::queue::Touches;
use super::reply_to::{Answer, Parked, Response};
use super::retry;
use super::state::{Event, State};
use super::wait_handle::{Leave, WaitHandle};
use super::waiting::Wait;
use crate::Error;

/// How often the runtime's other tasks are let go first, before a semaphore's next batch begins.
const MOST_YIELDS: u32 = 8;

/// Has commands decided.
#[derive(Debug)]
pub(super) struct Driver {
    pub(super) store: Arc<dyn FullStore>,
    pub(super) grants: GrantCache,
    state: Mutex<State>,
}

impl Driver {
    pub(super) fn new(store: Arc<dyn FullStore>) -> Self {
        let state = State::new(ProcessId::new(fastrand::u64(1..)), store.max_batch());
        Self {
            store,
            grants: GrantCache::new(),
            state: Mutex::new(state),
        }
    }

    /// Has `command` decided before `deadline`, which touches `touches` as far as is known.
    ///
    /// Dropping the future takes the command out of the queue; one that is in a lane goes on.
    pub(super) async fn submit(
        self: &Arc<Self>,
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
        self: &Arc<Self>,
        command: Command,
        touches: Touches,
        wait: Wait,
        deadline: Instant,
    ) -> Result<Answer, Error> {
        let (answer, answered) = oneshot::channel();
        // Events are performed also where the queue is full: a runtime that ended may have left it so.
        let is_queued =
            self.update(|state| state.push_call(command, touches, wait, deadline, answer));
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

    /// The state, to look at it, or to change what leads to no event.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, queues the waiters that may go by it, and performs what comes of it.
    pub(super) fn update<R>(self: &Arc<Self>, change: impl FnOnce(&mut State) -> R) -> R {
        let result = {
            let mut state = self.state();
            let result = change(&mut state);
            state.call_waiters();
            result
        };
        self.perform();
        result
    }

    /// Performs the events of the state until none is left.
    fn perform(self: &Arc<Self>) {
        // Lanes are tasks. Outside a runtime, where a call may be dropped, none can begin; the next call begins them.
        let can_run = Handle::try_current().is_ok();
        loop {
            // The lock is let go of before an event is performed: what is dropped by it may lock again.
            let event = self.state().next_event(can_run);
            match event {
                None => return,
                Some(Event::Respond(responses)) => self.send(responses),
                Some(Event::Run { taken, looks_first }) => {
                    let now = Instant::now();
                    let lane = Lane::new(taken, looks_first, now, retry::deadline());
                    let driver = Arc::clone(self);
                    tokio::spawn(Run { driver, lane }.run());
                }
                // The last event. A runtime that ends drops the poller at once, which would be begun for ever.
                Some(Event::PollLockedRows) => return self.poll_locked_rows(),
            }
        }
    }

    fn send(self: &Arc<Self>, responses: Vec<Response>) {
        // A caller that went away drops its answer.
        for response in responses {
            match response {
                Response::Caller(to, answer) => drop(to.send(answer)),
                Response::Waiter(to, answer) => drop(to.send(answer)),
                Response::Waits(to, parked) => {
                    let Parked {
                        place,
                        wait,
                        answered,
                    } = parked;
                    let line: Arc<dyn Leave> = Arc::<Self>::clone(self);
                    let handle = WaitHandle::new(line, place, wait, answered);
                    drop(to.send(Answer::Waits(handle)));
                }
            }
        }
    }
}

impl Leave for Driver {
    fn leave(self: Arc<Self>, place: Place) -> Option<Refusal> {
        self.update(|state| state.leave(place))
    }
}

/// A lane on its way. However its task ends, its commands are answered and its semaphores are free again.
struct Run {
    driver: Arc<Driver>,
    lane: Lane,
}

impl Run {
    async fn run(mut self) {
        let store = Arc::clone(&self.driver.store);
        loop {
            let taken_out = match self.lane.step() {
                Step::FindLocked(footprint) => match store.locked(footprint).await {
                    Ok(locked) => self.lane.found_locked(&locked),
                    Err(error) => {
                        tracing::debug!(%error, "a batch could not look for locked rows");
                        self.lane.found_locked(&Footprint::default())
                    }
                },
                Step::Pause(time) => {
                    sleep(time).await;
                    self.lane.paused();
                    TakenOut::default()
                }
                Step::Transact(batch, on_lock) => {
                    let deadline = self.lane.deadline();
                    let result = retry::transact(&*store, batch, deadline, on_lock).await;
                    self.lane.transacted(result, Instant::now())
                }
                Step::Answer => break,
            };
            if !taken_out.is_empty() {
                self.driver.update(|state| state.block_all(taken_out));
            }
        }
        let decided = self.lane.answers();
        self.answer(decided);
        self.gather().await;
    }

    /// Applies the outcomes and sends the answers. Other lanes begin once this one has ended.
    fn answer(&self, decided: Vec<Decided>) {
        let driver = &self.driver;
        let answers = {
            let mut state = driver.state();
            state.apply(decided, &driver.grants);
            state.next_event(false)
        };
        if let Some(Event::Respond(responses)) = answers {
            driver.send(responses);
        }
    }

    /// Lets callers that ask again at once get into the next batch, with those that came meanwhile: one batch for all, in
    /// place of two that take turns. Ends as soon as nobody comes.
    async fn gather(&self) {
        let len = || self.driver.state().queue.len();
        let mut queued = len();
        for _ in 0..MOST_YIELDS {
            yield_now().await;
            let before = std::mem::replace(&mut queued, len());
            if queued <= before {
                return;
            }
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let was_cut_off = self.lane.is_under_way();
        if was_cut_off {
            let decided = self.lane.cut_off();
            self.answer(decided);
        }
        let Self { driver, lane } = self;
        driver.state().queue.end(lane.kind, &lane.semaphores);
        // A runtime that ends takes no other lanes. Those on another begin with the next call there.
        if !was_cut_off || std::thread::panicking() {
            driver.perform();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use lockhouse_core::SemaphoreName;
    use lockhouse_stores::Memory;
    use tokio::runtime::Runtime;

    use super::*;

    /// A runtime that ends drops a task at once that is spawned on it.
    #[test]
    fn a_change_on_a_runtime_that_ends_comes_to_an_end_while_rows_are_locked() {
        let driver = Arc::new(Driver::new(Arc::new(Memory::new())));
        let name = SemaphoreName::parse("a").unwrap();
        driver.state().blocked.lock(&Footprint {
            semaphores: [name].into(),
            ..Footprint::default()
        });
        let runtime = Runtime::new().unwrap();
        let handle = runtime.handle().clone();
        drop(runtime);
        let (done, is_done) = mpsc::channel();
        thread::spawn(move || {
            let _entered = handle.enter();
            driver.update(|_| ());
            done.send(driver.state().has_lock_poller).unwrap();
        });
        let has_lock_poller = is_done.recv_timeout(Duration::from_secs(5));
        assert_eq!(has_lock_poller, Ok(false), "another may begin");
    }
}
