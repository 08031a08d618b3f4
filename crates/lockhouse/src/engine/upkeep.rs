//! Upkeep of the store: each task once.

use std::time::Duration;

use lockhouse_core::store::{Due, Page, Purge};
use lockhouse_core::{Cause, Finding, Owner, Request, Semaphore};
use tokio::time::sleep;

use super::lapsed::lapse;
use super::{Engine, attempt};
use crate::Error;

impl Engine {
    /// Ends what has lapsed; how many requests.
    pub(crate) async fn sweep_lapsed(&self) -> Result<u64, Error> {
        self.end_all(Due::Lapsed { on: None }, lapse).await
    }

    /// Ends what has been held for `age` without a time to live, and is kept by no session of its
    /// owner; how many requests.
    pub(crate) async fn sweep_stale(&self, age: Duration) -> Result<u64, Error> {
        let stale = |request: &Request| Cause::Stale {
            age,
            owner: request.owner.clone(),
        };
        self.end_all(Due::Stale { age }, stale).await
    }

    /// Ends all that `owner`, who is known to be gone, holds; how many requests.
    pub(crate) async fn sweep_gone(&self, owner: &Owner) -> Result<u64, Error> {
        let gone = |_: &_| Cause::OwnerGone {
            owner: owner.clone(),
        };
        self.end_all(Due::OwnedBy(owner), gone).await
    }

    /// A piece of those who hold.
    pub(crate) async fn owners(&self, page: &Page<Owner>) -> Result<Vec<Owner>, Error> {
        attempt::read(attempt::deadline(), || self.store.owners(page)).await
    }

    /// Deletes rows of the past, `batch` a transaction, with a `pause` after each; how many.
    pub(crate) async fn purge(
        &self,
        what: Purge,
        batch: u32,
        pause: Duration,
    ) -> Result<u64, Error> {
        let mut total = 0;
        loop {
            let deadline = attempt::deadline();
            let gone = attempt::read(deadline, || self.store.purge(what, batch)).await?;
            total += gone;
            if gone < u64::from(batch) {
                return Ok(total);
            }
            sleep(pause).await;
        }
    }

    /// What is off in the store's rows.
    pub(crate) async fn verify(&self) -> Result<Vec<Finding>, Error> {
        Ok(self.store.recount().await?.findings())
    }

    /// Mends what can be mended of `findings`; the semaphores as they were.
    pub(crate) async fn repair(&self, findings: &[Finding]) -> Result<Vec<Semaphore>, Error> {
        let mut mended = Vec::new();
        for finding in findings.iter().filter(|finding| finding.can_be_repaired) {
            let Some(name) = &finding.semaphore else {
                continue;
            };
            let deadline = attempt::deadline();
            let was = attempt::read(deadline, || self.store.repair(name)).await?;
            if let Some(was) = was {
                let (in_use, fence) = (was.in_use, was.fence);
                tracing::warn!(%name, in_use, fence, "a semaphore's counters were mended; these they were");
                mended.push(was);
                let names = [name.clone()].into();
                self.lanes.state().waiting.look_soon(&names);
                self.shared.someone_new.notify_one();
            }
        }
        Ok(mended)
    }
}
