//! The parts of the algorithm that are the same on all databases.

/// How often an acquire or a release is tried, with the first attempt.
pub(super) const ATTEMPTS: u32 = 3;

/// The name of semaphore `number`.
pub(super) fn name(number: usize) -> String {
    format!("bench-{number}")
}
