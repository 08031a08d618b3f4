//! A call: it is queued, and waits for its answer, or in the line.

use lockhouse_core::store::{Error as StoreError, Kind};
use lockhouse_core::{Command, Outcome, PlaceInLine};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::Engine;
use super::queue::Touches;
use super::reply_to::Answer;
use super::waiting::{Answered, Wait};
use crate::Error;

/// The answer to an ask with a wait.
pub(super) enum Submitted<'a> {
    Decided(Outcome),
    /// There was no room, and the call waits in line.
    Waits(WaitHandle<'a>),
}

impl Engine {
    /// Has `command` decided before `deadline`. As far as is known, it touches `touches`.
    ///
    /// Dropping the future takes the command out of the queue. A command that is in a lane goes on.
    pub(super) async fn decide(
        &self,
        command: Command,
        touches: Touches,
        deadline: Instant,
    ) -> Result<Outcome, Error> {
        match self
            .decide_or_wait(command, touches, Wait::No, deadline)
            .await?
        {
            Submitted::Decided(outcome) => Ok(outcome),
            Submitted::Waits(_) => Err(Error::Internal("a non-waiting call was queued".into())),
        }
    }

    /// Has an ask with a `wait` decided, as [`decide`](Self::decide) does. The answer may be a handle on its place in the line.
    pub(super) async fn decide_or_wait(
        &self,
        command: Command,
        touches: Touches,
        wait: Wait,
        deadline: Instant,
    ) -> Result<Submitted<'_>, Error> {
        let (answer, answered) = oneshot::channel();
        let place = self.enqueue(command, touches, wait, deadline, answer)?;
        // Dropped after the receiver: from then on a lane does not park the call any more.
        let mut place = KeptPlace {
            engine: self,
            place,
        };
        let answer = match timeout_at(wait.answered_by(deadline), answered).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => return Err(no_answer()),
            Err(_) => {
                let late = "the store did not answer in time; try again";
                return Err(StoreError::new(Kind::Unknown, late).into());
            }
        };
        match answer {
            Answer::Waits(answered) => Ok(Submitted::Waits(WaitHandle {
                place,
                wait,
                answered,
            })),
            Answer::Decided(outcome) => {
                place.has_ended();
                Ok(Submitted::Decided(outcome?))
            }
            Answer::Overloaded => {
                place.has_ended();
                Err(Error::Overloaded)
            }
        }
    }
}

/// The place of an ask in the line. Dropping it gives up the place.
#[derive(Debug)]
struct KeptPlace<'a> {
    engine: &'a Engine,
    /// The place, until it is given up: after that another call may have it.
    place: Option<PlaceInLine>,
}

impl KeptPlace<'_> {
    /// Records that the call no longer has the place.
    fn has_ended(&mut self) {
        self.place = None;
    }
}

impl Drop for KeptPlace<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            self.engine.leave(place);
        }
    }
}

/// A waiting call. Dropping the handle gives up its place.
#[derive(Debug)]
pub(super) struct WaitHandle<'a> {
    place: KeptPlace<'a>,
    wait: Wait,
    answered: oneshot::Receiver<Answered>,
}

impl WaitHandle<'_> {
    /// Waits for the outcome. When the wait is over, the outcome is the last refusal, unless the
    /// waiter is being served at that moment.
    pub(super) async fn outcome(mut self) -> Result<Outcome, Error> {
        if let Wait::Until(until) = self.wait {
            if let Ok(answered) = timeout_at(until, &mut self.answered).await {
                return self.answer(answered);
            }
            let place = &mut self.place;
            let left = place.place.and_then(|at| place.engine.leave(at));
            if let Some(refused) = left {
                place.has_ended();
                return Ok(Err(refused));
            }
        }
        let answered = (&mut self.answered).await;
        self.answer(answered)
    }

    fn answer(
        &mut self,
        answered: Result<Answered, oneshot::error::RecvError>,
    ) -> Result<Outcome, Error> {
        let answered = answered.map_err(|_| no_answer())?;
        self.place.has_ended();
        Ok(answered?)
    }
}

fn no_answer() -> Error {
    Error::Internal("a lane ended without an answer".into())
}
