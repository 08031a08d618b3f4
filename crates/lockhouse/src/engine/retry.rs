//! Retries calls to the store, where that can help.
//!
//! A transient failure is retried up to three times, with growing and jittered backoff, so that
//! calls which collided do not collide again. A locked row and a server without a free connection are
//! tried until the deadline. All of it ends 9.5 s after it began.
//!
//! When the answer to a commit was lost, the same batch is sent again. Every command is safe to
//! repeat, and the store's locks make the second try wait for the first if that is still under way.
//! The answer is then the one that the first try would have had (P9).
//!
//! All retries of one and the same call to the store are here. Loops elsewhere send something else each time, or at longer
//! intervals:
//! - a [lane](super::running_lane) decides its batch again after it set commands with locked rows aside;
//! - a [refused call](super::calls) asks again after a look has ended lapsed requests;
//! - the [waiting line](super::waiting) queues this process's entry, or its removal, again until a batch has saved it;
//! - the [publisher](super::publisher) sends the lists as they are then;
//! - a [release](crate::background) in the background goes on until the request has ended;
//! - a store on a database server interrupts its own statements, to find out whether they wait for a lock.
//!
//! A remote client retries its calls to the server in `remote/exchange.rs`.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use lockhouse_core::store::{Batch, Error, FullStore, Kind};
use lockhouse_core::{Command, Outcome, Reply};
use tokio::time::{Instant, timeout_at};

use crate::again;

/// A caller is promised an answer within 10 s.
pub(super) const PATIENCE: Duration = Duration::from_millis(9_500);

/// How often a transient failure is retried.
const RETRIES: u32 = 3;

/// When a call that begins now must have its answer.
pub(super) fn deadline() -> Instant {
    Instant::now() + PATIENCE
}

/// The deadline of calls that go over all rows. The store has its own limit.
pub(super) fn long_deadline() -> Instant {
    Instant::now() + Duration::from_secs(3_600)
}

/// How to handle a lock wait that timed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnLock {
    /// Try again, until the deadline.
    Retry,
    /// Return the error, which names the rows. If an earlier answer was lost, retry until the
    /// deadline all the same: the transaction that keeps the rows locked may be the first try.
    Report,
}

/// A batch has its callers' waiting times. When they are older than this, they are updated before a
/// try.
const UP_TO_DATE_FOR: Duration = Duration::from_millis(5);

/// Tries calls to the store again, and counts how often.
#[derive(Debug, Default)]
pub(crate) struct Retry {
    counts: [AtomicU64; Kind::TRANSIENT.len()],
}

impl Retry {
    /// Decides and saves `batch`, which was made at `made`, before `deadline`.
    pub(super) async fn transact(
        &self,
        store: &dyn FullStore,
        batch: &Batch,
        made: Instant,
        deadline: Instant,
        on_lock: OnLock,
    ) -> Result<Vec<Outcome>, Error> {
        let mut lost = Vec::new();
        let is_final = |error: &Error| {
            if error.maybe_applied() {
                lost.push(error.decided().to_vec());
            }
            error.kind() == Kind::Locked && on_lock == OnLock::Report && lost.is_empty()
        };
        let call = || async move { store.transact(&up_to_date(batch, made)).await };
        let (answer, is_lost) = self.repeat(deadline, Kind::Unknown, is_final, call).await;
        match answer {
            Ok(outcomes) if is_lost => Ok(as_asked_before(batch, outcomes, &lost)),
            Err(error) if is_lost => Err(unknown(error)),
            answer => answer,
        }
    }

    /// Reads before `deadline`, with retries. If the server had no free connection until then, the error stays
    /// [`Crowded`](Kind::Crowded), so that a caller with more time tries again.
    pub(super) async fn read<T, F>(
        &self,
        deadline: Instant,
        call: impl FnMut() -> F,
    ) -> Result<T, crate::Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let (answer, _) = self
            .repeat(deadline, Kind::Unavailable, |_| false, call)
            .await;
        Ok(answer?)
    }

    /// Writes before `deadline`, with retries, by a call that is safe to repeat. Returns the answer, and whether an earlier
    /// try may have done the work, as its answer was lost. If all tries after it fail, the error is
    /// [`Unknown`](Kind::Unknown).
    pub(super) async fn write<T, F>(
        &self,
        deadline: Instant,
        call: impl FnMut() -> F,
    ) -> Result<(T, bool), crate::Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        match self.repeat(deadline, Kind::Unknown, |_| false, call).await {
            (Ok(answer), is_lost) => Ok((answer, is_lost)),
            (Err(error), true) => Err(unknown(error).into()),
            (Err(error), false) => Err(error.into()),
        }
    }

    /// Tries `call` until `deadline`, after which the error has the kind `late`, or until `is_final` is true of an error.
    /// Returns the last answer, and whether that of an earlier try was lost.
    async fn repeat<T, F>(
        &self,
        deadline: Instant,
        late: Kind,
        mut is_final: impl FnMut(&Error) -> bool,
        mut call: impl FnMut() -> F,
    ) -> (Result<T, Error>, bool)
    where
        F: Future<Output = Result<T, Error>>,
    {
        let mut last: Option<Error> = None;
        let mut is_lost = false;
        let mut retry = 0;
        loop {
            let error = match timeout_at(deadline, call()).await {
                Ok(Ok(answer)) => return (Ok(answer), is_lost),
                Ok(Err(error)) => error,
                Err(_) => {
                    let is_crowded = last
                        .as_ref()
                        .is_some_and(|last| last.kind() == Kind::Crowded);
                    let kind = match late {
                        Kind::Unavailable if is_crowded => Kind::Crowded,
                        _ => late,
                    };
                    return (Err(too_late(kind, last)), is_lost);
                }
            };
            is_lost |= error.maybe_applied();
            if is_final(&error) {
                return (Err(error), is_lost);
            }
            if !may_help(&error, retry) || !pause(&error, retry, deadline).await {
                return (Err(for_caller(error)), is_lost);
            }
            retry += 1;
            self.count(error.kind());
            tracing::debug!(%error, retry, "trying a call to the store again");
            last = Some(for_caller(error));
        }
    }

    /// How often calls were tried again after each kind of error.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (Kind, u64)> + '_ {
        let counts = self.counts.iter().map(|count| count.load(Relaxed));
        Kind::TRANSIENT.into_iter().zip(counts)
    }

    fn count(&self, kind: Kind) {
        let mut counts = Kind::TRANSIENT.into_iter().zip(&self.counts);
        if let Some((_, count)) = counts.find(|(counted, _)| *counted == kind) {
            count.fetch_add(1, Relaxed);
        }
    }
}

/// Repeats `call`, which gets the time that is left of `wait`, while other processes keep the store busy.
pub(super) async fn while_busy<T, F>(
    wait: Duration,
    mut call: impl FnMut(Duration) -> F,
) -> Result<T, crate::Error>
where
    F: Future<Output = Result<T, crate::Error>>,
{
    let begun = Instant::now();
    loop {
        match call(wait.saturating_sub(begun.elapsed())).await {
            Err(crate::Error::Store(error)) if error.is_busy() && begun.elapsed() < wait => {}
            other => return other,
        }
    }
}

/// Decides and saves `batch`, which was made at `made`, before `deadline`, and does not try again.
pub(super) async fn transact_once(
    store: &dyn FullStore,
    batch: &Batch,
    made: Instant,
    deadline: Instant,
) -> Result<Vec<Outcome>, Error> {
    let batch = up_to_date(batch, made);
    let tried = timeout_at(deadline, store.transact(&batch)).await;
    tried.unwrap_or_else(|_| Err(too_late(Kind::Unknown, None)))
}

fn up_to_date(batch: &Batch, made: Instant) -> Cow<'_, Batch> {
    let age = made.elapsed();
    match age > UP_TO_DATE_FOR {
        true => Cow::Owned(batch.after(age)),
        false => Cow::Borrowed(batch),
    }
}

/// Whether another try can help after `retry` retries.
fn may_help(error: &Error, retry: u32) -> bool {
    let as_long_as_there_is_time = matches!(error.kind(), Kind::Crowded | Kind::Locked);
    error.is_transient() && (retry < RETRIES || as_long_as_there_is_time)
}

/// Waits 10 to 20 ms, and four times as long before each further retry. A store that is unavailable
/// may be starting, so it gets five times as long. A server without a free connection is tried
/// every 200 to 400 ms, since other processes need their connections only briefly. Returns false if
/// the deadline would pass meanwhile.
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
    again::pause(shortest, Duration::ZERO, deadline).await
}

/// The error as a caller gets it. Of a lock the database's own error says less.
pub(super) fn for_caller(error: Error) -> Error {
    match error.kind() {
        Kind::Locked => stays_locked(),
        _ => error,
    }
}

/// The error of a call that met a lock until its deadline.
pub(super) fn stays_locked() -> Error {
    let problem = "another transaction of the database locks a row that the call needs, or the gap \
                   for a new row; try again, or end that transaction";
    Error::new(Kind::Locked, problem)
}

/// The error when time ran out; `last` is the error of the try before.
fn too_late(kind: Kind, last: Option<Error>) -> Error {
    let error = Error::new(kind, "the store did not answer in time; try again");
    match last {
        Some(last) => error.caused_by(last),
        None => error,
    }
}

/// Infers the answers of the tries whose answers were `lost`, from the decisions of those tries and
/// the `outcomes` of the repeated batch. Of several commands that end one request or delete one
/// semaphore, only the first can have done it.
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

/// Whether the outcome `decided`, if it was saved, explains what was `found` now.
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
        "the answer to a commit was lost, and the retries failed; try again",
    )
    .caused_by(error)
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_read_of_a_crowded_server_that_is_cut_off_says_that_it_is_crowded() {
        let kind_after = async |given: Kind| {
            let mut first = Some(given);
            let retry = Retry::default();
            let read = retry.read(deadline(), || {
                let first = first.take();
                async move {
                    match first {
                        Some(kind) => Err::<(), _>(Error::new(kind, "the first try")),
                        None => pending().await,
                    }
                }
            });
            let answer = read.await;
            let counted = retry.counts().find(|(_, count)| *count > 0);
            assert_eq!(counted, Some((given, 1)));
            match answer {
                Err(crate::Error::Store(error)) => error.kind(),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(kind_after(Kind::Crowded).await, Kind::Crowded);
        assert_eq!(kind_after(Kind::Conflict).await, Kind::Unavailable);
    }
}
