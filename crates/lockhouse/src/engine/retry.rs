//! Trying again, where that can help.
//!
//! What is transient is tried up to three times more, after a pause that grows and is jittered, so
//! that those who collided don't collide again. A server that has no connection left is tried for as
//! long as there is time. All of it ends 9.5 s after it began.
//!
//! When the answer to a commit was lost, the same batch is asked again: every command is safe to
//! repeat, and the store's locks make the second wait for the first if that is still under way.
//! The answer is then the one that the first would have had (P9).

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockhouse_core::store::{Batch, Error, FullStore, Kind};
use lockhouse_core::{Command, Outcome, Reply};
use tokio::time::{Instant, timeout_at};

use crate::again;

/// Within the 10 s that a caller is promised an answer in.
pub(super) const PATIENCE: Duration = Duration::from_millis(9_500);

/// How many times more what is transient is tried.
const RETRIES: u32 = 3;

/// When a call that begins now must have its answer.
pub(super) fn deadline() -> Instant {
    Instant::now() + PATIENCE
}

/// The same for what goes over all rows. The store has a limit of its own.
pub(super) fn long_deadline() -> Instant {
    Instant::now() + Duration::from_secs(3_600)
}

/// What to do about a lock wait that timed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnLock {
    /// Try again, until the deadline.
    Retry,
    /// Answer with the error, which names the rows. An answer that was lost before is still asked for until
    /// the deadline: the transaction that keeps the rows locked may be that of the first try.
    Report,
}

/// A batch says how long its callers have waited. After so long it is brought up to date before a try.
const UP_TO_DATE_FOR: Duration = Duration::from_millis(5);

/// Decides and saves `batch`, which was made at `made`, before `deadline`.
pub(super) async fn transact(
    store: &dyn FullStore,
    batch: &Batch,
    made: Instant,
    deadline: Instant,
    on_lock: OnLock,
) -> Result<Vec<Outcome>, Error> {
    let mut lost = Vec::new();
    let mut last = None;
    let mut retry = 0;
    loop {
        let age = made.elapsed();
        let newer = (age > UP_TO_DATE_FOR).then(|| batch.after(age));
        let tried = store.transact(newer.as_ref().unwrap_or(batch));
        let error = match timeout_at(deadline, tried).await {
            Ok(Ok(outcomes)) if lost.is_empty() => return Ok(outcomes),
            Ok(Ok(outcomes)) => return Ok(as_asked_before(batch, outcomes, &lost)),
            Ok(Err(error)) => error,
            Err(_) => return Err(too_late(Kind::Unknown, last)),
        };
        if error.maybe_applied() {
            lost.push(error.decided().to_vec());
        }
        if error.kind() == Kind::Locked && on_lock == OnLock::Report && lost.is_empty() {
            return Err(error);
        }
        if !may_help(&error, retry) || !pause(&error, retry, deadline).await {
            return Err(match lost.is_empty() {
                true => error,
                false => unknown(error),
            });
        }
        retry += 1;
        tracing::debug!(%error, retry, "trying a batch again");
        last = Some(error);
    }
}

/// Decides and saves `batch`, before `deadline`, and does not try again.
pub(super) async fn transact_once(
    store: &dyn FullStore,
    batch: &Batch,
    deadline: Instant,
) -> Result<Vec<Outcome>, Error> {
    let tried = timeout_at(deadline, store.transact(batch)).await;
    tried.unwrap_or_else(|_| Err(too_late(Kind::Unknown, None)))
}

/// Reads, again where that can help, before `deadline`. A server that had no connection left until then is still
/// [`Crowded`](Kind::Crowded), so that a caller with more time tries again.
pub(super) async fn read<T, F>(
    deadline: Instant,
    mut call: impl FnMut() -> F,
) -> Result<T, crate::Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let mut last = None;
    let mut retry = 0;
    loop {
        let error = match timeout_at(deadline, call()).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => error,
            Err(_) => {
                let is_crowded = |last: &Error| last.kind() == Kind::Crowded;
                let kind = match last.as_ref().is_some_and(is_crowded) {
                    true => Kind::Crowded,
                    false => Kind::Unavailable,
                };
                return Err(too_late(kind, last).into());
            }
        };
        if !may_help(&error, retry) || !pause(&error, retry, deadline).await {
            return Err(error.into());
        }
        retry += 1;
        last = Some(error);
    }
}

/// Whether trying again can help after so many retries.
fn may_help(error: &Error, retry: u32) -> bool {
    let as_long_as_there_is_time = matches!(error.kind(), Kind::Crowded | Kind::Locked);
    error.is_transient() && (retry < RETRIES || as_long_as_there_is_time)
}

/// Waits 10 to 20 ms, then four times that, and so on for as long as it grows; five times as long
/// for a store that can't be had, as it may be starting. A server without a free connection is asked every
/// 200 to 400 ms: each of many processes needs one for a moment only, to renew what it holds. False if the
/// deadline would pass meanwhile.
async fn pause(error: &Error, retry: u32, deadline: Instant) -> bool {
    let first = match error.kind() {
        Kind::Unavailable | Kind::Crowded => Duration::from_millis(50),
        _ => Duration::from_millis(10),
    };
    let grows = if error.kind() == Kind::Crowded {
        1
    } else {
        RETRIES - 1
    };
    let shortest = first * 4_u32.pow(retry.min(grows));
    let is_in_time = again::pause(shortest, Duration::ZERO, deadline).await;
    RETRIES_SO_FAR.fetch_add(u64::from(is_in_time), Ordering::Relaxed);
    is_in_time
}

static RETRIES_SO_FAR: AtomicU64 = AtomicU64::new(0);

/// How many calls to stores this process has tried again so far, since they had failed and trying again could help.
pub fn store_retries() -> u64 {
    RETRIES_SO_FAR.load(Ordering::Relaxed)
}

/// The time ran out; `last` says what was in the way before.
fn too_late(kind: Kind, last: Option<Error>) -> Error {
    let error = Error::new(kind, "the store did not answer in time");
    match last {
        Some(last) => error.caused_by(last),
        None => error,
    }
}

/// What the tries whose answers were `lost` would have said, as far as asking again tells; they are
/// known by what they decided. Where that isn't known: of several commands that end one request or
/// delete one semaphore, it can have been the first alone.
fn as_asked_before(batch: &Batch, outcomes: Vec<Outcome>, lost: &[Vec<Outcome>]) -> Vec<Outcome> {
    let mut ended = HashSet::new();
    let mut deleted = HashSet::new();
    let mut is_the_first_to_do_it = |command: &Command| match command {
        Command::End { external_id, .. } => ended.insert(external_id.clone()),
        Command::Delete { name } => deleted.insert(name.clone()),
        _ => true,
    };
    let pairs = batch.commands.iter().zip(outcomes);
    pairs
        .enumerate()
        .map(|(i, (command, outcome))| {
            let is_first = is_the_first_to_do_it(command);
            again::as_asked_before(command, outcome, |found| {
                let mut decided = lost.iter().map(|decided| decided.get(i));
                decided.any(|decided| decided.map_or(is_first, |decided| did(decided, found)))
            })
        })
        .collect()
}

/// Whether what was `decided`, if it was saved, is what is `found` now.
fn did(decided: &Outcome, found: &Outcome) -> bool {
    match (decided, found) {
        (
            Ok(Reply::Ended {
                request, now: true, ..
            }),
            Ok(Reply::Ended { request: found, .. }),
        ) => request.released_at() == found.released_at(),
        (Ok(Reply::Deleted), _) => true,
        _ => false,
    }
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

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_read_of_a_crowded_server_that_is_cut_off_says_that_it_is_crowded() {
        let kind_after = async |first: Kind| {
            let mut first = Some(first);
            let read = read(deadline(), || {
                let first = first.take();
                async move {
                    match first {
                        Some(kind) => Err::<(), _>(Error::new(kind, "the first try")),
                        None => pending().await,
                    }
                }
            });
            match read.await {
                Err(crate::Error::Store(error)) => error.kind(),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(kind_after(Kind::Crowded).await, Kind::Crowded);
        assert_eq!(kind_after(Kind::Conflict).await, Kind::Unavailable);
    }
}
