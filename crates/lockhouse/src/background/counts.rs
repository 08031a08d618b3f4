//! How much a client has to give back.

use lockhouse_core::Owner;

#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    pub(super) under_way: usize,
    pub(super) failed: usize,
    /// Owners whose goodbye is under way.
    pub(super) leaving: Vec<Owner>,
    /// How many releases failed and are being retried.
    pub(super) overdue: usize,
}
