//! Deletes the rows of semaphores that were deleted long ago.
//!
//! The script that deletes them also raises the row of the store's epoch to their highest fence, so a
//! name that comes back begins above it (P7). A batch that creates a semaphore reads the epoch, and
//! begins again if the epoch was raised meanwhile.

use std::iter::once;
use std::time::Duration;

use lockhouse_core::store::Error;
use lockhouse_core::{Epoch, SemaphoreRow, Timestamp};

use super::Redis;
use super::rows::{self, SetRange};
use super::writes::Writes;
use crate::time::before;

/// The most rows that one script deletes. Other commands wait for a script.
const MOST: usize = 256;

const CONTEXT: &str = "deleting old semaphores";

impl Redis {
    /// Deletes at most `limit` rows. Returns how many. It deletes none while a request is kept that
    /// ended before `age`, since the permits of that request name their semaphores.
    pub(super) async fn purge_semaphores(&self, age: Duration, limit: u32) -> Result<u64, Error> {
        let cutoff = before(self.now().await?, age);
        let old = SetRange::of_scores("-inf", cutoff.as_microsecond());
        let (ended, _) = self.find("r", "ended", &old, 1).await?;
        if !ended.is_empty() {
            return Ok(0);
        }
        let limit = MOST.min(limit as usize);
        let (_, found) = self.find("s", "deleted", &old, limit).await?;
        let found: Vec<SemaphoreRow> = rows::all(found)?;
        if found.is_empty() {
            return Ok(0);
        }
        let epoch = Epoch::semaphore();
        let names = once(&epoch).chain(found.iter().map(|semaphore| &semaphore.name));
        let read = self.load(names.map(|name| self.keys.semaphore(name)));
        let read = read.await?;
        let mut old: Vec<SemaphoreRow> = rows::all(&read.values)?;
        let before = old.extract_if(.., |row| row.name == epoch).next();
        // Other processes may have created some of them again.
        old.retain(|row| row.deleted_at.is_some_and(|at| at <= cutoff));
        let Some(last_fence) = old.iter().map(|row| row.fence).max() else {
            return Ok(0);
        };
        let mut raised = before.unwrap_or_else(|| SemaphoreRow::undefined(epoch, read.at));
        raised.fence = raised.fence.max(last_fence);
        let mut writes = Writes::default();
        writes.set(self.keys.semaphore(&raised.name), &raised);
        writes.index(&[], &self.keys.of_semaphore(&raised));
        for row in &old {
            writes.add(["DEL", &self.keys.semaphore(&row.name)]);
            writes.index(&self.keys.of_semaphore(row), &[]);
        }
        // If another process changed a row meanwhile, the rows stay until the next purge.
        let is_done = self.save(read, Timestamp::MAX, writes, CONTEXT).await?;
        Ok(if is_done { old.len() as u64 } else { 0 })
    }
}
