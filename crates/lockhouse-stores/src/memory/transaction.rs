//! A batch on the rows in memory, under their lock.

use std::fmt;
use std::sync::MutexGuard;

use lockhouse_core::store::Batch;
use lockhouse_core::{Changes, Loaded, Timestamp};

use super::rows::{Rows, make_ready};

/// The rows of a [`Memory`](super::Memory) under their lock, which is released on drop.
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

    /// What `batch` touches, at the time of the store's clock.
    pub fn load(&self, batch: &Batch) -> Loaded {
        let now = (self.clock)();
        let mut footprint = batch.footprint.clone();
        let mut loaded = self.rows.load(&footprint, now);
        if footprint.grow(&batch.commands, &loaded) {
            loaded = self.rows.load(&footprint, now);
        }
        make_ready(&batch.commands, &mut loaded);
        loaded
    }

    /// Writes `changes`.
    pub fn save(&mut self, changes: Changes) {
        self.rows.save(changes);
    }
}

impl fmt::Debug for MemoryTransaction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryTransaction").finish_non_exhaustive()
    }
}
