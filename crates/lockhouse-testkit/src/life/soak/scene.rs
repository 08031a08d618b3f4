//! The semaphores of a soak, and what its processes may meet.

use std::time::Duration;

use lockhouse::{Code, Upkeep};

/// Semaphores and what they have at first. Those of the second kind are resized all the time; the
/// last is deleted and comes back.
pub(super) const STEADY: [(&str, u32); 2] = [("north", 5), ("south", 9)];
pub(super) const RESIZED: [(&str, u32); 2] = [("middle", 4), ("east", 20)];
pub(super) const DELETED: (&str, u32) = ("west", 3);

/// A semaphore, and the request that holds it until it is stale: nobody else touches either.
pub(super) const FORGOTTEN: (&str, &str) = ("dock", "forgotten");

/// Rows are kept for so long, many audits, so that each is seen with all that it overlaps.
pub(super) const PURGE_AFTER: Duration = Duration::from_secs(3);

/// The upkeep that every process does, at intervals of a shorter life.
pub(super) fn upkeep() -> Upkeep {
    Upkeep {
        sweep_every: Duration::from_millis(300),
        stale_after: Duration::from_secs(2),
        purge_every: Duration::from_millis(500),
        purge_after: PURGE_AFTER,
        purge_batch: 200,
        purge_pause: Duration::from_millis(5),
        ..Upkeep::default()
    }
}

/// Whether an answer may come, where everybody resizes, deletes, forces and purges.
pub(super) fn is_fair(code: Code) -> bool {
    matches!(
        code,
        Code::Exhausted
            | Code::ExceedsCapacity
            | Code::UnknownSemaphore
            | Code::UnknownRequest
            | Code::RequestEnded
            | Code::SemaphoreInUse
            | Code::CapacityChanged
    )
}
