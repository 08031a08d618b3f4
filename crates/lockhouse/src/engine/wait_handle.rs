//! A caller's handle on its place in the waiting line: it waits for the answer, or gives the place up.

use std::fmt::Debug;
use std::sync::Arc;

use lockhouse_core::{Outcome, Place, Refusal};
use tokio::sync::oneshot;
use tokio::time::timeout_at;

use super::waiting::{Answered, Wait};
use crate::Error;

/// The waiting line, as a handle needs it.
pub(super) trait Leave: Debug + Send + Sync {
    /// Takes a waiter out of its lines, and says why it was not granted; None if it is being served, or was.
    fn leave(self: Arc<Self>, place: Place) -> Option<Refusal>;
}

/// A place in the waiting line. Dropping the handle gives the place up.
#[derive(Debug)]
pub(super) struct WaitHandle {
    line: Arc<dyn Leave>,
    /// None once it is given up: it may be another waiter's then.
    place: Option<Place>,
    wait: Wait,
    answered: oneshot::Receiver<Answered>,
}

impl WaitHandle {
    pub(super) fn new(
        line: Arc<dyn Leave>,
        place: Place,
        wait: Wait,
        answered: oneshot::Receiver<Answered>,
    ) -> Self {
        Self {
            line,
            place: Some(place),
            wait,
            answered,
        }
    }

    /// The outcome; `exhausted`, once the wait is over. A waiter that is being served in that very moment gets the
    /// outcome of that.
    pub(super) async fn outcome(mut self) -> Result<Outcome, Error> {
        if let Wait::Until(until) = self.wait {
            if let Ok(answered) = timeout_at(until, &mut self.answered).await {
                return outcome(answered);
            }
            let left = self
                .place
                .and_then(|place| Arc::clone(&self.line).leave(place));
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
            Arc::clone(&self.line).leave(place);
        }
    }
}

fn outcome(answered: Result<Answered, oneshot::error::RecvError>) -> Result<Outcome, Error> {
    match answered {
        Ok(answered) => Ok(answered?),
        Err(_) => Err(Error::Internal("a lane ended without an answer".into())),
    }
}
