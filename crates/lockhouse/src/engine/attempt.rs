//! Trying again, where that can help.
//!
//! What is transient is tried up to three times more, after a pause that grows and is jittered, so
//! that those who collided don't collide again. All of it ends 9.5 s after it began.
//!
//! When the answer to a commit was lost, the same batch is asked again: every command is safe to
//! repeat, and the store's locks make the second wait for the first if that is still under way.
//! The answer is then the one that the first would have had (P9).

use std::time::Duration;

use lockhouse_core::store::{Batch, Error, Kind, Store};
use lockhouse_core::{Command, Outcome, Refusal, Reply};
use tokio::time::{Instant, sleep, timeout_at};

/// Within the 10 s that a caller is promised an answer in.
pub(super) const PATIENCE: Duration = Duration::from_millis(9_500);

const RETRIES: u32 = 3;

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
            Ok(Ok(outcomes)) if asked_before => return Ok(as_the_first(batch, outcomes)),
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

/// Reads, again where that can help.
pub(super) async fn read<T, F>(mut call: impl FnMut() -> F) -> Result<T, crate::Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let deadline = Instant::now() + PATIENCE;
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
    let least = 10 << (2 * retry);
    let pause = Duration::from_millis(fastrand::u64(least..=2 * least));
    if Instant::now() + pause >= deadline {
        return false;
    }
    sleep(pause).await;
    true
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

/// The outcomes that the first try would have had, given those of asking again.
fn as_the_first(batch: &Batch, outcomes: Vec<Outcome>) -> Vec<Outcome> {
    let pairs = batch.commands.iter().zip(outcomes);
    pairs
        .map(|(command, outcome)| match (command, outcome) {
            (
                Command::End { reason, .. },
                Ok(Reply::Ended {
                    request,
                    now: false,
                }),
            ) if request.end_reason() == Some(*reason) => Ok(Reply::Ended { request, now: true }),
            (Command::Delete { .. }, Err(Refusal::UnknownSemaphore(_))) => Ok(Reply::Deleted),
            (_, outcome) => outcome,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockhouse_core::store::Batch;
    use lockhouse_core::{ExternalId, SemaphoreName};

    #[test]
    fn a_deletion_asked_again_after_a_lost_answer_is_a_deletion() {
        let name = SemaphoreName::parse("a").unwrap();
        let batch = Batch::new(vec![
            Command::Delete { name: name.clone() },
            Command::Renew {
                external_id: ExternalId::parse("x").unwrap(),
                ttl: None,
            },
        ]);
        let unknown = Refusal::UnknownRequest(ExternalId::parse("x").unwrap());
        let second = vec![
            Err(Refusal::UnknownSemaphore(vec![name])),
            Err(unknown.clone()),
        ];
        assert_eq!(
            as_the_first(&batch, second),
            [Ok(Reply::Deleted), Err(unknown)]
        );
    }
}
