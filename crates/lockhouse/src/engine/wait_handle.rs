//! A caller's handle on its place in the waiting line: it waits for the answer, or gives the place up.

use lockhouse_core::{Outcome, Place};
use tokio::sync::oneshot;
use tokio::time::timeout_at;

use super::driver::Driver;
use super::waiting::{Answered, Wait};
use crate::Error;

/// One who waits. Dropping it gives the place up.
#[derive(Debug)]
pub(super) struct WaitHandle {
    driver: Driver,
    /// Until it is given up: it may be another's then.
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

    /// What it comes to; no room, once the wait is over. Who is being served in that very moment
    /// is told what comes of it.
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
