//! All kinds of answers, in words.

use lockhouse_core::{Cause, Command, Definition, EndReason, Outcome, Refusal, Reply, Request};

pub(crate) const EVERY_KIND: [&str; 42] = [
    "capacity changed",
    "closed",
    "conflict",
    "created",
    "deleted",
    "ended before",
    "ended now: expired, found by an expiry",
    "ended now: expired, found by another cause",
    "ended now: finished",
    "ended now: forced",
    "ended now: owner gone",
    "ended now: owner silent",
    "ended now: released",
    "ended now: stale",
    "exceeds capacity",
    "exhausted",
    "followed: as it was",
    "followed: deleted",
    "followed: resized",
    "goodbye",
    "goodbye: had no session",
    "granted before",
    "granted now",
    "heard: began",
    "heard: went on",
    "in use",
    "not due: expired",
    "not due: owner gone",
    "not due: owner silent",
    "not due: stale",
    "nothing to renew for",
    "renewed",
    "request ended: acquire",
    "request ended: renew",
    "seen",
    "session ended",
    "slots differ",
    "there already",
    "there already, as expected",
    "too many slots",
    "unknown request",
    "unknown semaphore",
];

pub(crate) fn kind_of(command: &Command, outcome: &Outcome) -> &'static str {
    match outcome {
        Ok(Reply::Defined { created: true, .. }) => "created",
        Ok(Reply::Defined { .. }) if is_conditional(command) => "there already, as expected",
        Ok(Reply::Defined { .. }) => "there already",
        Ok(Reply::Deleted) => "deleted",
        Ok(Reply::Followed { semaphore, .. }) if !semaphore.exists() => "followed: deleted",
        Ok(Reply::Followed {
            is_resized: true, ..
        }) => "followed: resized",
        Ok(Reply::Followed { .. }) => "followed: as it was",
        Ok(Reply::Seen { .. }) => "seen",
        Ok(Reply::Granted { now: true, .. }) => "granted now",
        Ok(Reply::Granted { .. }) => "granted before",
        Ok(Reply::Renewed(_)) => "renewed",
        Ok(Reply::Ended { request, now, .. }) => ended(command, request, *now),
        Ok(Reply::Heard { began: true, .. }) => "heard: began",
        Ok(Reply::Heard { .. }) => "heard: went on",
        Ok(Reply::Gone { now: true }) => "goodbye",
        Ok(Reply::Gone { now: false }) => "goodbye: had no session",
        Err(Refusal::CapacityChanged { .. }) => "capacity changed",
        Err(Refusal::UnknownSemaphore(_)) => "unknown semaphore",
        Err(Refusal::UnknownRequest(_)) => "unknown request",
        Err(Refusal::ExceedsCapacity { .. }) => "exceeds capacity",
        Err(Refusal::Exhausted(_)) => "exhausted",
        Err(Refusal::Closed(_)) => "closed",
        Err(Refusal::IdempotencyConflict(_)) => "conflict",
        Err(Refusal::RequestEnded { .. }) if matches!(command, Command::Renew { .. }) => {
            "request ended: renew"
        }
        Err(Refusal::RequestEnded { .. }) => "request ended: acquire",
        Err(Refusal::SessionEnded(_)) => "session ended",
        Err(Refusal::SlotsDiffer { .. }) => "slots differ",
        Err(Refusal::TooManySlots { .. }) => "too many slots",
        Err(Refusal::NoTtl(_)) => "nothing to renew for",
        Err(Refusal::SemaphoreInUse { .. }) => "in use",
        _ => "something new",
    }
}

fn is_conditional(command: &Command) -> bool {
    matches!(
        command,
        Command::Define(Definition {
            expected: Some(_),
            ..
        })
    )
}

fn ended(command: &Command, request: &Request, now: bool) -> &'static str {
    let Command::End { cause, .. } = command else {
        return "something new";
    };
    let expired = request.end_reason() == Some(EndReason::Expired);
    match cause {
        _ if !now && !request.is_live() => "ended before",
        _ if now && request.finished_at.is_some() => "ended now: finished",
        Cause::Expired if now => "ended now: expired, found by an expiry",
        _ if now && expired => "ended now: expired, found by another cause",
        Cause::Released { .. } => "ended now: released",
        Cause::Forced { .. } => "ended now: forced",
        Cause::OwnerGone { .. } if now => "ended now: owner gone",
        Cause::OwnerSilent { .. } if now => "ended now: owner silent",
        Cause::Stale { .. } if now => "ended now: stale",
        Cause::Expired => "not due: expired",
        Cause::OwnerGone { .. } => "not due: owner gone",
        Cause::OwnerSilent { .. } => "not due: owner silent",
        Cause::Stale { .. } => "not due: stale",
    }
}
