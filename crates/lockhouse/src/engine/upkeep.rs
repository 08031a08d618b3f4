//! Upkeep of the store: each task once.

use std::time::Duration;

use lockhouse_core::store::{Due, Page, Purge};
use lockhouse_core::{Cause, Finding, Owner, Request, SemaphoreRow};
use tokio::time::{Instant, sleep};

use super::lapsed::{PIECE, lapse};
use super::{Engine, retry};
use crate::Error;

/// The first and smallest number of rows to delete in a transaction. A smaller transaction spends
/// most of its time on the commit.
const SHORT_PURGE: u32 = 50;

/// How long a purge transaction should take. Callers that acquire or release meanwhile share the
/// disk with it, and on SQLite wait for it.
const PURGE_FOR: Duration = Duration::from_millis(6);

impl Engine {
    /// Ends lapsed requests. Returns how many it ended.
    pub(crate) async fn sweep_lapsed(&self) -> Result<u64, Error> {
        let lapsed = Due::Lapsed { on: None };
        Ok(self.end_all(lapsed, lapse, retry::deadline).await?.by_us)
    }

    /// Ends requests without a TTL that have been held for `age`, unless a session keeps them.
    /// Returns how many it ended.
    pub(crate) async fn sweep_stale(&self, age: Duration) -> Result<u64, Error> {
        let stale = |request: &Request| Cause::Stale {
            age,
            owner: request.owner.clone(),
        };
        let (mut total, mut page) = (
            0,
            Page {
                after: None,
                limit: PIECE,
            },
        );
        loop {
            let deadline = retry::deadline();
            let look = self
                .retry
                .read(deadline, || self.store.stale(age, &page))
                .await?;
            total += self.end_each(look.requests, stale, deadline).await?.by_us;
            if look.looked_to.is_none() {
                return Ok(total);
            }
            page.after = look.looked_to;
        }
    }

    /// Ends all requests of `owner`, which a check has found gone, and its session. Returns how
    /// many it ended. If the owner lives after all, its next heartbeat tells it.
    pub(crate) async fn sweep_gone(&self, owner: &Owner) -> Result<u64, Error> {
        let gone = || Cause::OwnerGone {
            owner: owner.clone(),
        };
        self.end_owner(owner, gone).await
    }

    /// A page of the owners that hold permits.
    pub(crate) async fn owners(&self, page: &Page<Owner>) -> Result<Vec<Owner>, Error> {
        self.retry
            .read(retry::deadline(), || self.store.owners(page))
            .await
    }

    /// Deletes old rows, at most `batch` in a transaction, with a `pause` after each. Returns how
    /// many it deleted.
    pub(crate) async fn purge(
        &self,
        what: Purge,
        batch: u32,
        pause: Duration,
    ) -> Result<u64, Error> {
        let (mut total, mut some) = (0, batch.min(SHORT_PURGE));
        loop {
            let begun = Instant::now();
            let deadline = retry::deadline();
            let (gone, _) = self
                .retry
                .write(deadline, || self.store.purge(what, some))
                .await?;
            total += gone;
            // A short count does not mean the end: another transaction may have some rows locked.
            if gone == 0 {
                return Ok(total);
            }
            some = next_purge(some, begun.elapsed(), batch);
            sleep(pause).await;
        }
    }

    /// The inconsistencies in the store's rows.
    pub(crate) async fn verify(&self) -> Result<Vec<Finding>, Error> {
        let recount = || self.store.recount();
        let recount = self.retry.read(retry::long_deadline(), recount).await?;
        Ok(recount.findings())
    }

    /// Repairs those of the `findings` that can be repaired. Returns the semaphores as they were
    /// before.
    pub(crate) async fn repair(&self, findings: &[Finding]) -> Result<Vec<SemaphoreRow>, Error> {
        let mut mended = Vec::new();
        for finding in findings.iter().filter(|finding| finding.can_be_repaired) {
            let Some(name) = &finding.semaphore else {
                continue;
            };
            let deadline = retry::long_deadline();
            let (was, _) = self
                .retry
                .write(deadline, || self.store.repair(name))
                .await?;
            if let Some(was) = was {
                let (in_use, fence) = (was.in_use, was.fence);
                tracing::warn!(%name, in_use, fence, "a semaphore's counters were wrong and are mended; these are the wrong ones");
                mended.push(was);
                let names = [name.clone()].into();
                self.record(|state| state.waiting.look_soon(&names));
            }
        }
        Ok(mended)
    }
}

/// How many rows to delete next, after deleting `some` took `took`: at most twice as many, and at
/// most `most`.
fn next_purge(some: u32, took: Duration, most: u32) -> u32 {
    let in_time = PURGE_FOR.as_secs_f64() / took.as_secs_f64().max(1e-6);
    let next = f64::from(some) * in_time.min(2.0);
    (next as u32).max(SHORT_PURGE).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn purges_grow_until_they_take_long() {
        let next = |some, ms| next_purge(some, Duration::from_millis(ms), 800);
        assert_eq!(next(100, 0), 200);
        assert_eq!(next(100, 3), 200);
        assert_eq!(next(500, 1), 800);
        assert_eq!(next(400, 6), 400);
        assert_eq!(next(400, 12), 200);
        assert_eq!(next(60, 5_000), 50);
        assert_eq!(next_purge(10, Duration::from_secs(5), 10), 10);
    }
}
