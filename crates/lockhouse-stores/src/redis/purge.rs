//! Deletes the rows of semaphores that were deleted long ago.
//!
//! Their highest fence goes to the row of the store's epoch in the same script, so a name that comes back begins above it
//! (P7). A batch that creates a semaphore has read the epoch, and begins again if it was raised meanwhile.

use std::iter::once;
use std::time::Duration;

use lockhouse_core::store::Error;
use lockhouse_core::{Epoch, Semaphore, Timestamp};

use super::Redis;
use super::rows::{self, Range};
use super::writes::Writes;

/// A script runs alone on the server, so it deletes at most so many.
const MOST: usize = 256;

impl Redis {
    /// Deletes at most `limit` rows; how many. None while a request is kept that ended before `age`: its permits name a
    /// semaphore.
    pub(super) async fn purge_semaphores(&self, age: Duration, limit: u32) -> Result<u64, Error> {
        let cutoff = self.now().await?.saturating_sub(age);
        let cutoff = cutoff.unwrap_or(Timestamp::UNIX_EPOCH);
        let past = Range::of_scores("-inf", cutoff.as_microsecond());
        if !self.find("r", "ended", &past, 1).await?.is_empty() {
            return Ok(0);
        }
        let found = self.find("s", "deleted", &past, MOST.min(limit as usize));
        let found: Vec<Semaphore> = rows::all(found.await?.into_iter().map(|(_, row)| row))?;
        if found.is_empty() {
            return Ok(0);
        }
        let epoch = Epoch::semaphore();
        let names = once(&epoch).chain(found.iter().map(|semaphore| &semaphore.name));
        let read = self.load(names.map(|name| self.keys.semaphore(name)));
        let read = read.await?;
        let mut past: Vec<Semaphore> = rows::all(&read.values)?;
        let raised = past.extract_if(.., |row| row.name == epoch).next();
        // Others may have created some of them again.
        past.retain(|row| row.deleted_at.is_some_and(|at| at <= cutoff));
        let mut raised = raised.unwrap_or_else(|| Semaphore::made_ready(epoch, read.at));
        let fences = past.iter().map(|row| row.fence);
        raised.fence = fences.max().unwrap_or_default().max(raised.fence);
        let mut writes = Writes::default();
        writes.set(self.keys.semaphore(&raised.name), &raised);
        writes.index(&[], &self.keys.of_semaphore(&raised));
        for row in &past {
            writes.add(["DEL", &self.keys.semaphore(&row.name)]);
            writes.index(&self.keys.of_semaphore(row), &[]);
        }
        let context = "deleting semaphores of the past";
        // Rows that others changed meanwhile stay until the next purge.
        let is_done = self.save(read, Timestamp::MAX, writes, context).await?;
        Ok(if is_done { past.len() as u64 } else { 0 })
    }
}
