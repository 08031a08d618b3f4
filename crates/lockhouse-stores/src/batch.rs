//! The size of a batch.

/// The most commands in a batch on the SQL stores and in memory. It bounds how much one transaction locks.
pub(crate) const MAX_BATCH: usize = 512;
