//! Asking again, the same way in the engine and in the remote client.
//!
//! A pause grows fourfold each time and is jittered, so that those who collided don't collide
//! again. When an answer was lost, the same command is asked again: every command is safe to
//! repeat, and its second answer tells what the first would have said (P9).

use std::time::Duration;

use lockhouse_core::{Command, Outcome, Refusal, Reply, Timestamp};
use tokio::time::{Instant, sleep};

/// How many times more what is transient is tried.
pub(crate) const RETRIES: u32 = 3;

/// Waits one to two times `first` before the first retry (0), four times that before the next; and
/// no less than `least`. False if the deadline would pass meanwhile.
pub(crate) async fn pause(first: Duration, least: Duration, retry: u32, deadline: Instant) -> bool {
    let jittered = first.mul_f64(1.0 + fastrand::f64()) * 4_u32.pow(retry);
    let pause = jittered.max(least);
    if Instant::now() + pause >= deadline {
        return false;
    }
    sleep(pause).await;
    true
}

/// The outcome that the first try would have had, which began `ago`, given that of asking again.
///
/// What had ended longer before the first try began than the last one took, it did not end. What
/// another ended in the same way after that can't be told from what this ended.
pub(crate) fn as_the_first(command: &Command, outcome: Outcome, ago: Duration) -> Outcome {
    match (command, outcome) {
        (
            Command::End { cause, .. },
            Ok(Reply::Ended {
                request,
                now: false,
                decided_at,
            }),
        ) => Ok(Reply::Ended {
            now: request.end_reason() == Some(cause.reason())
                && request
                    .released_at()
                    .is_some_and(|at| elapsed(at, decided_at) <= ago),
            request,
            decided_at,
        }),
        (Command::Delete { .. }, Err(Refusal::UnknownSemaphore(_))) => Ok(Reply::Deleted),
        (_, outcome) => outcome,
    }
}

/// None, if the clock was set back.
fn elapsed(from: Timestamp, to: Timestamp) -> Duration {
    to.duration_since(from).try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockhouse_core::{EndReason, ExternalId, Request, SemaphoreName, State};

    const AGO: Duration = Duration::from_secs(1);

    #[test]
    fn a_deletion_asked_again_after_a_lost_answer_is_a_deletion() {
        let name = SemaphoreName::parse("a").unwrap();
        let delete = Command::Delete { name: name.clone() };
        let second = Err(Refusal::UnknownSemaphore(vec![name]));
        assert_eq!(as_the_first(&delete, second, AGO), Ok(Reply::Deleted));
    }

    #[test]
    fn a_release_asked_again_after_a_lost_answer_ended_what_has_ended_so_since() {
        let external_id = ExternalId::parse("x").unwrap();
        let release = Command::release(external_id.clone());
        let ended = |reason, now| {
            let request = Request {
                external_id: external_id.clone(),
                owner: None,
                state: State::Released {
                    reason,
                    at: Timestamp::UNIX_EPOCH,
                },
                permits: Vec::new(),
                ttl: None,
                expires_at: None,
                created_at: Timestamp::UNIX_EPOCH,
                ended_by: None,
            };
            Ok(Reply::Ended {
                request,
                now,
                decided_at: Timestamp::UNIX_EPOCH + AGO,
            })
        };
        let first = |reason, ago| as_the_first(&release, ended(reason, false), ago);
        let released = |now| ended(EndReason::Released, now);
        assert_eq!(first(EndReason::Released, AGO), released(true));
        let before = AGO - Duration::from_micros(1);
        assert_eq!(first(EndReason::Released, before), released(false));
        let expired = ended(EndReason::Expired, false);
        assert_eq!(first(EndReason::Expired, AGO), expired);
    }

    #[test]
    fn another_answer_stays_as_it_is() {
        let external_id = ExternalId::parse("x").unwrap();
        let renew = Command::Renew {
            external_id: external_id.clone(),
            ttl: None,
        };
        let unknown = Err(Refusal::UnknownRequest(external_id));
        assert_eq!(as_the_first(&renew, unknown.clone(), AGO), unknown);
    }
}
