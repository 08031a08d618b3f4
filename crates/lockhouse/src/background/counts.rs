//! Counts the releases and goodbyes of a client that are under way or failed.

use lockhouse_core::Owner;

#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    /// How many releases and goodbyes are under way.
    pub(super) under_way: usize,
    pub(super) failed: usize,
    /// Owners whose goodbye is under way.
    pub(super) leaving: Vec<Owner>,
    /// How many releases failed and are being retried.
    pub(super) overdue: usize,
}
