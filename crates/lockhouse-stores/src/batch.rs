//! The size of a batch.

/// The most commands in a batch on these stores, which lock one row after the other.
pub(crate) const MAX_BATCH: usize = 512;
