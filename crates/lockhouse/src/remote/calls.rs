//! Splits a long wait into calls of at most 20 s.
//!
//! Each call begins a second before the last one ends. So the server always has one of them in its
//! line, and no later waiter gets by in between (P11). Both get the same grant.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use lockhouse_core::Code;
use tokio::time::{Instant, sleep_until};

use crate::Error;

/// The longest wait of one call.
const LONGEST: Duration = Duration::from_secs(20);

/// How long before the end of a call the next one begins: enough time to arrive, even over a new
/// connection.
const OVERLAP: Duration = Duration::from_secs(1);

/// Waits until `until`, or without it for as long as it takes, in calls that each wait until the
/// time that they get. Returns the first answer other than "no room".
pub(super) async fn waiting<T, F>(
    until: Option<Instant>,
    call: impl Fn(Instant) -> F,
) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let mut calls: FuturesUnordered<F> = FuturesUnordered::new();
    let mut next = Some(Instant::now());
    loop {
        tokio::select! {
            biased;
            Some(answer) = calls.next() => {
                let is_exhausted = |error: &Error| error.code() == Code::Exhausted;
                if !answer.as_ref().is_err_and(is_exhausted) {
                    return answer;
                }
                let now = Instant::now();
                if calls.is_empty() && until.is_some_and(|until| until <= now) {
                    return answer;
                }
                if calls.is_empty() {
                    next = Some(now);
                }
            }
            () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {
                let longest = Instant::now() + LONGEST;
                let last = until.filter(|until| *until <= longest);
                calls.push(call(last.unwrap_or(longest)));
                next = last.is_none().then(|| longest - OVERLAP);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use lockhouse_core::Refusal;
    use tokio::time::sleep;

    use super::*;

    fn full<T>() -> Result<T, Error> {
        Err(Refusal::Exhausted(Vec::new()).into())
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_of_a_minute_is_in_a_call_all_the_time() {
        let begun = Instant::now();
        let calls = RefCell::new(Vec::new());
        let until = begun + Duration::from_secs(60);
        let answer = waiting::<(), _>(Some(until), |until| {
            calls.borrow_mut().push((begun.elapsed(), until - begun));
            async move {
                sleep_until(until).await;
                full()
            }
        });
        assert!(matches!(
            answer.await,
            Err(Error::Refused(Refusal::Exhausted(_)))
        ));
        let seconds = |(from, to): (Duration, Duration)| (from.as_secs(), to.as_secs());
        let calls: Vec<_> = calls.take().into_iter().map(seconds).collect();
        assert_eq!(calls, [(0, 20), (19, 39), (38, 58), (57, 60)]);
        assert_eq!(begun.elapsed().as_secs(), 60);
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_answer_of_two_calls_counts() {
        let begun = Instant::now();
        let answer = waiting(None, |until| async move {
            let is_second = until - begun > LONGEST;
            sleep(Duration::from_millis(if is_second { 500 } else { 19_700 })).await;
            Ok(is_second)
        });
        assert!(matches!(answer.await, Ok(true)));
        assert_eq!(begun.elapsed(), Duration::from_millis(19_500));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_ends_early_is_followed_by_another() {
        let begun = Instant::now();
        let until = begun + Duration::from_secs(5);
        let answer = waiting::<(), _>(Some(until), |_| async {
            sleep(Duration::from_secs(2)).await;
            full()
        });
        assert!(answer.await.is_err());
        assert_eq!(begun.elapsed(), Duration::from_secs(6));
    }

    #[tokio::test(start_paused = true)]
    async fn an_ask_without_a_wait_is_one_call() {
        let calls = RefCell::new(0);
        let answer = waiting::<(), _>(Some(Instant::now()), |_| {
            *calls.borrow_mut() += 1;
            async { full() }
        });
        assert!(answer.await.is_err());
        assert_eq!(calls.take(), 1);
    }
}
