//! A caller's handle on its place in the waiting line: it waits for the answer, or gives the place up.

use lockhouse_core::{Outcome, Place};
use tokio::sync::oneshot;
use tokio::time::timeout_at;

use super::driver::Driver;
use super::waiting::{Answered, Wait};
use crate::Error;

/// A waiting call. Dropping the handle gives up its place.
#[derive(Debug)]
pub(super) struct WaitHandle {
    driver: Driver,
    /// Its place, until it is given up: after that another call may have it.
    place: Option<Place>,
    wait: Wait,
    answered: oneshot::Receiver<Answered>,
}

impl WaitHandle {
    pub(super) fn new(
        driver: Driver,
        place: Place,
        wait: Wait,
        answered: oneshot::Receiver<Answered>,
    ) -> Self {
        Self {
            driver,
            place: Some(place),
            wait,
            answered,
        }
    }

    /// Waits for the outcome. When the wait is over, the outcome is the last refusal, unless the
    /// waiter is being served at that moment.
    pub(super) async fn outcome(mut self) -> Result<Outcome, Error> {
        if let Wait::Until(until) = self.wait {
            if let Ok(answered) = timeout_at(until, &mut self.answered).await {
                return outcome(answered);
            }
            let left = self.place.and_then(|place| self.driver.leave(place));
            if let Some(refused) = left {
                self.place = None;
                return Ok(Err(refused));
            }
        }
        outcome((&mut self.answered).await)
    }
}

impl Drop for WaitHandle {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            self.driver.leave(place);
        }
    }
}

fn outcome(answered: Result<Answered, oneshot::error::RecvError>) -> Result<Outcome, Error> {
    match answered {
        Ok(answered) => Ok(answered?),
        Err(_) => Err(Error::Internal("a lane ended without an answer".into())),
    }
}
