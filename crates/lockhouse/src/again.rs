//! Retries that the engine and the remote client have in common.
//!
//! Backoff grows and is jittered, so that calls which collided do not collide again. When an answer
//! was lost, the same command is sent again. Every command is safe to repeat, and its second answer
//! tells what the first would have said (P9).

use std::time::Duration;

use lockhouse_core::{Command, Outcome, Refusal, Reply};
use tokio::time::{Instant, sleep};

/// Waits one to two times `shortest`, and no less than `least`. Returns false if the deadline would
/// pass meanwhile.
pub(crate) async fn pause(shortest: Duration, least: Duration, deadline: Instant) -> bool {
    let jittered = shortest.mul_f64(1.0 + fastrand::f64());
    let pause = jittered.max(least);
    // A server may ask for any number of seconds.
    let until = Instant::now().checked_add(pause);
    if until.is_none_or(|until| until >= deadline) {
        return false;
    }
    sleep(pause).await;
    true
}

/// The outcome of a command whose earlier answers were lost, from the outcome of a retry. If the
/// retry finds the request ended or the semaphore deleted, an earlier try did that if `was_it`.
pub(crate) fn as_asked_before(
    command: &Command,
    outcome: Outcome,
    was_it: impl FnOnce(&Outcome) -> bool,
) -> Outcome {
    let own = match (command, &outcome) {
        (Command::End { cause, .. }, Ok(Reply::Ended { request, .. })) => {
            request.end_reason() == Some(cause.reason()) && request.finished_at.is_none()
        }
        (Command::Delete { .. }, Err(Refusal::UnknownSemaphore(_))) => true,
        _ => false,
    };
    if !own || !was_it(&outcome) {
        return outcome;
    }
    match outcome {
        Ok(Reply::Ended {
            request,
            decided_at,
            ..
        }) => Ok(Reply::Ended {
            request,
            now: true,
            decided_at,
        }),
        _ => Ok(Reply::Deleted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockhouse_core::{EndReason, ExternalId, Request, SemaphoreName, State, Timestamp};

    fn ended(reason: EndReason, now: bool) -> Outcome {
        let at = Timestamp::UNIX_EPOCH;
        let request = Request {
            external_id: ExternalId::parse("x").unwrap(),
            owner: None,
            state: State::Released { reason, at },
            permits: Vec::new(),
            ttl: None,
            expires_at: None,
            finished_at: None,
            created_at: at,
            ended_by: None,
        };
        Ok(Reply::Ended {
            request,
            now,
            decided_at: at,
        })
    }

    #[test]
    fn a_retried_deletion_succeeds_if_an_earlier_try_deleted() {
        let name = SemaphoreName::parse("a").unwrap();
        let delete = Command::Delete { name: name.clone() };
        let second: Outcome = Err(Refusal::UnknownSemaphore(vec![name]));
        for (was_it, told) in [(true, Ok(Reply::Deleted)), (false, second.clone())] {
            assert_eq!(as_asked_before(&delete, second.clone(), |_| was_it), told);
        }
    }

    #[test]
    fn a_release_asked_again_after_a_lost_answer_is_a_release_if_it_was_it() {
        let release = Command::release(ExternalId::parse("x").unwrap());
        let told = |reason, was_it| as_asked_before(&release, ended(reason, false), |_| was_it);
        let released = |now| ended(EndReason::Released, now);
        assert_eq!(told(EndReason::Released, true), released(true));
        assert_eq!(told(EndReason::Released, false), released(false));
        let expired = ended(EndReason::Expired, false);
        assert_eq!(told(EndReason::Expired, true), expired);
    }

    #[test]
    fn other_answers_of_retries_are_kept() {
        let external_id = ExternalId::parse("x").unwrap();
        let renew = Command::Renew {
            by: None,
            external_id: external_id.clone(),
            ttl: None,
        };
        let unknown = Err(Refusal::UnknownRequest(external_id));
        assert_eq!(as_asked_before(&renew, unknown.clone(), |_| true), unknown);
    }
}
