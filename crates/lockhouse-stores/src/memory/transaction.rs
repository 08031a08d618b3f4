//! A batch on the rows in memory, under their lock.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::MutexGuard;

use lockhouse_core::store::{Commit, Error, Transaction};
use lockhouse_core::{Changes, ExternalId, Footprint, Loaded, Timestamp};

use super::rows::Rows;

/// The rows of a [`Memory`](super::Memory) under their lock, which is released on drop; see
/// [`Memory::begin`](super::Memory::begin).
pub struct MemoryTransaction<'a> {
    rows: MutexGuard<'a, Rows>,
    clock: &'a (dyn Fn() -> Timestamp + Send + Sync),
}

impl<'a> MemoryTransaction<'a> {
    pub(super) fn new(
        rows: MutexGuard<'a, Rows>,
        clock: &'a (dyn Fn() -> Timestamp + Send + Sync),
    ) -> Self {
        Self { rows, clock }
    }

    /// The rows of `footprint`, at the time of the store's clock.
    pub fn load(&self, footprint: &Footprint) -> Loaded {
        self.rows.load(footprint, (self.clock)())
    }

    /// Writes `changes`.
    pub fn save(&mut self, changes: Changes) {
        self.rows.save(changes);
    }
}

impl Transaction for MemoryTransaction<'_> {
    const TAKES_FOR_NEW: bool = false;

    async fn load(&mut self, footprint: &Footprint) -> Result<Loaded, Error> {
        Ok(MemoryTransaction::load(self, footprint))
    }

    async fn save(&mut self, changes: Changes, _: &BTreeSet<&ExternalId>) -> Result<Commit, Error> {
        MemoryTransaction::save(self, changes);
        Ok(Commit::Done)
    }
}

impl fmt::Debug for MemoryTransaction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryTransaction").finish_non_exhaustive()
    }
}
