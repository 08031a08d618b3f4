//! Trying again, where that can help.
//!
//! What is transient is tried up to three times more, after a pause that grows and is jittered, so
//! that those who collided don't collide again. All of it ends 9.5 s after it began.
//!
//! When the answer to a commit was lost, the same batch is asked again: every command is safe to
//! repeat, and the store's locks make the second wait for the first if that is still under way.
//! The answer is then the one that the first would have had (P9).

use std::time::Duration;

use lockhouse_core::Outcome;
use lockhouse_core::store::{Batch, Error, Kind, Store};
use tokio::time::{Instant, timeout_at};

use crate::again::{self, RETRIES};

/// Within the 10 s that a caller is promised an answer in.
const PATIENCE: Duration = Duration::from_millis(9_500);

/// When a call that begins now must have its answer.
pub(super) fn deadline() -> Instant {
    Instant::now() + PATIENCE
}

/// Decides and saves `batch`, before `deadline`.
pub(super) async fn transact(
    store: &dyn Store,
    batch: &Batch,
    deadline: Instant,
) -> Result<Vec<Outcome>, Error> {
    let mut asked_before = false;
    let mut retry = 0;
    loop {
        let error = match timeout_at(deadline, store.transact(batch)).await {
            Ok(Ok(outcomes)) if asked_before => {
                let pairs = batch.commands.iter().zip(outcomes);
                return Ok(pairs
                    .map(|(command, outcome)| again::as_the_first(command, outcome))
                    .collect());
            }
            Ok(Ok(outcomes)) => return Ok(outcomes),
            Ok(Err(error)) => error,
            Err(_) => {
                return Err(Error::new(
                    Kind::Unknown,
                    "the store did not answer in time",
                ));
            }
        };
        asked_before |= error.maybe_applied();
        if !error.is_transient() || retry == RETRIES || !pause(retry, deadline).await {
            return Err(if asked_before { unknown(error) } else { error });
        }
        retry += 1;
        tracing::debug!(%error, retry, "trying a batch again");
    }
}

/// Reads, again where that can help, before `deadline`.
pub(super) async fn read<T, F>(
    deadline: Instant,
    mut call: impl FnMut() -> F,
) -> Result<T, crate::Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let mut retry = 0;
    loop {
        let error = match timeout_at(deadline, call()).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => error,
            Err(_) => Error::new(Kind::Unavailable, "the store did not answer in time"),
        };
        if !error.is_transient() || retry == RETRIES || !pause(retry, deadline).await {
            return Err(error.into());
        }
        retry += 1;
    }
}

/// Waits 10 to 20 ms, 40 to 80 ms, 160 to 320 ms; false if the deadline would pass meanwhile.
async fn pause(retry: u32, deadline: Instant) -> bool {
    again::pause(Duration::from_millis(10), Duration::ZERO, retry, deadline).await
}

fn unknown(error: Error) -> Error {
    if error.maybe_applied() {
        return error;
    }
    Error::new(
        Kind::Unknown,
        "the answer to a commit was lost, and asking again failed",
    )
    .caused_by(error)
}
