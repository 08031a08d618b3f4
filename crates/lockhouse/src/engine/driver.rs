//! The driver: one loop that performs what the state machines return.
//!
//! The engine first records each event in the [`state`](super::state): a call is queued, a lane has its answers, a poll has
//! read a row. Then the driver takes the effects from the state, and starts or wakes a task for each. A task does the I/O, and records
//! its result in the same way.

use lockhouse_core::{Command, PlaceInLine, Refusal};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Engine;
use super::apply::Response;
use super::effect::Effect;
use super::lock_poller::{LockPoller, LockWait};
use super::poller::Poller;
use super::publisher::Publisher;
use super::queue::Touches;
use super::reply_to::Answer;
use super::running_lane::RunningLane;
use super::state::EngineState;
use super::waiting::Wait;
use crate::Error;

impl Engine {
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
        // Perform the effects even if the queue refused the call: if the runtime of the earlier calls has ended, nothing
        // else empties the queue.
        self.record(|state| state.enqueue(command, touches, wait, deadline, answer))
    }

    /// Takes a waiter out of its lines, and returns why it was not granted. Returns `None` if it is
    /// being served, or was.
    pub(super) fn leave(&self, place: PlaceInLine) -> Option<Refusal> {
        let waiter = self.record(|state| state.leave(place))?;
        Some(waiter.refused)
    }

    /// Records an event in the state machines, and performs what they return then.
    pub(super) fn record<T>(&self, event: impl FnOnce(&mut EngineState) -> T) -> T {
        let mut state = self.state();
        let result = event(&mut state);
        drop(state);
        self.perform();
        result
    }

    /// Performs the effects that the state machines return.
    pub(super) fn perform(&self) {
        // Effects are tasks. A call may be dropped outside a runtime, where no task can begin. The
        // next call begins them.
        if tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        loop {
            // The mutex is unlocked before a spawn. A runtime that is ending drops the task inside `spawn`, and that drop
            // locks the mutex. The drop of a lane also answers its calls and makes room for the next lane, so the loop goes
            // on.
            let effects = self.state().effects();
            let has_lanes = effects
                .iter()
                .any(|effect| matches!(effect, Effect::RunLane(_)));
            effects.into_iter().for_each(|effect| self.start(effect));
            if !has_lanes {
                return;
            }
        }
    }

    /// Sends the responses. The caller must not hold the mutex of the state: an answer whose caller has gone is dropped here,
    /// and that drop locks the mutex.
    pub(super) fn respond(&self, responses: Vec<Response>) {
        responses.into_iter().for_each(Response::send);
    }

    /// Each task has a guard from here on: if it is dropped, or panics, the state learns of it.
    fn start(&self, effect: Effect) {
        let engine = self.clone();
        match effect {
            Effect::RunLane(lane) => drop(tokio::spawn(RunningLane { engine, lane }.run())),
            Effect::Poll => drop(tokio::spawn(Poller::new(engine).run())),
            Effect::WakePoller => self.shared.poller.notify_one(),
            Effect::PollLockedRows => drop(tokio::spawn(LockPoller::new(engine).run())),
            Effect::WaitInLockQueue(wait) => {
                drop(tokio::spawn(LockWait { engine, wait }.run()));
            }
            Effect::Publish(lists) => drop(tokio::spawn(Publisher::new(engine, lists).run())),
        }
    }
}
