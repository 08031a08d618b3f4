//! Raising the fences of all semaphores to a new epoch.
//!
//! The store's epoch is raised before the others are listed. So a semaphore that is created meanwhile
//! either has its row before that, and is found here, or begins with the new epoch.

use lockhouse_core::store::{Batch, Page};
use lockhouse_core::{Command, Epoch, Invalid, SemaphoreName, SemaphoreRow};
use tokio::time::Instant;

use super::Engine;
use super::retry::{self, OnLock};
use crate::Error;
use crate::Raised;

/// How many semaphores are listed at a time, and locked in one transaction.
const PIECE: u32 = 200;

impl Engine {
    /// Raises all fences to `to`, or to the epoch after the highest that there is.
    pub(crate) async fn raise_epoch(&self, to: Option<Epoch>) -> Result<Raised, Error> {
        let old = Epoch::of(self.highest_fence().await?);
        let new = match to {
            Some(to) if to < old => return Err(behind(to, old).into()),
            Some(to) => to,
            None => old.next()?,
        };
        self.raise(vec![Epoch::semaphore()], new).await?;
        let mut semaphores = 0;
        let mut all = Pieces::default();
        while let Some(piece) = all.next(self).await? {
            let behind = piece.into_iter().filter(|s| s.fence < new.fence());
            let names: Vec<_> = behind.map(|semaphore| semaphore.name).collect();
            semaphores += names.len() as u64;
            self.raise(names, new).await?;
        }
        tracing::warn!(%old, %new, semaphores, "the fences were raised to a new epoch");
        Ok(Raised {
            old,
            new,
            semaphores,
        })
    }

    async fn highest_fence(&self) -> Result<u64, Error> {
        let mut highest = 0;
        let mut all = Pieces::default();
        while let Some(piece) = all.next(self).await? {
            let fences = piece.iter().map(|semaphore| semaphore.fence);
            highest = fences.fold(highest, u64::max);
        }
        Ok(highest)
    }

    /// Raises in one transaction. Raising twice does the same as raising once, so the call is
    /// repeated if its answer was lost.
    async fn raise(&self, names: Vec<SemaphoreName>, epoch: Epoch) -> Result<(), Error> {
        if names.is_empty() {
            return Ok(());
        }
        let raises = names.into_iter();
        let raises = raises.map(|name| Command::RaiseFence { name, epoch });
        let batch = Batch::new(raises.collect());
        let (made, deadline) = (Instant::now(), retry::deadline());
        let decided = self
            .retry
            .transact(&*self.store, &batch, made, deadline, OnLock::Retry);
        let outcomes = decided.await?;
        for outcome in outcomes {
            outcome?;
        }
        Ok(())
    }
}

/// All semaphores, including deleted ones, page by page.
#[derive(Default)]
struct Pieces {
    after: Option<SemaphoreName>,
}

impl Pieces {
    async fn next(&mut self, engine: &Engine) -> Result<Option<Vec<SemaphoreRow>>, Error> {
        let page = Page {
            after: self.after.take(),
            limit: PIECE,
        };
        let deadline = retry::deadline();
        let found = engine
            .retry
            .read(deadline, || engine.store.semaphores_ever(&page))
            .await?;
        self.after = found.last().map(|semaphore| semaphore.name.clone());
        Ok(self.after.is_some().then_some(found))
    }
}

fn behind(to: Epoch, old: Epoch) -> Invalid {
    let problem =
        format!("is {to}, and there are fences in epoch {old}; give a later one, or leave it out");
    Invalid::new("epoch", problem)
}
