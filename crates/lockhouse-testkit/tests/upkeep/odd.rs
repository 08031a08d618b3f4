//! A store that is not as good as it should be.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lockhouse::Lockhouse;
use lockhouse_core::store::{Batch, Due, Error, Holders, Kind, Page, Purge, Stale, Store};
use lockhouse_core::{
    CapacityChange, ExternalId, Footprint, Outcome, Owner, Recount, Request, Semaphore,
    SemaphoreName, Timestamp,
};
use lockhouse_stores::Memory;

type OwnersHook = dyn Fn(&Page<Owner>) -> Result<(), Error> + Send + Sync;

/// A store in memory that is slow, or in trouble, as a test says.
pub(crate) struct Odd {
    pub(crate) memory: Arc<Memory>,
    /// How long each batch takes.
    pub(crate) transact: Duration,
    /// How long a migration takes; before one, the schema is missing.
    pub(crate) migrate: Duration,
    /// What comes before a page of owners.
    pub(crate) owners: Box<OwnersHook>,
}

impl Odd {
    pub(crate) fn on(memory: &Arc<Memory>) -> Self {
        Self {
            memory: Arc::clone(memory),
            transact: Duration::ZERO,
            migrate: Duration::ZERO,
            owners: Box::new(|_| Ok(())),
        }
    }

    pub(crate) fn lockhouse(self) -> Lockhouse {
        Lockhouse::with_store(Arc::new(self))
    }
}

impl fmt::Debug for Odd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Odd")
    }
}

#[async_trait]
impl Store for Odd {
    async fn transact(&self, batch: &Batch) -> Result<Vec<Outcome>, Error> {
        tokio::time::sleep(self.transact).await;
        self.memory.transact(batch).await
    }
    async fn locked(&self, rows: &Footprint) -> Result<Footprint, Error> {
        self.memory.locked(rows).await
    }

    async fn semaphore(&self, name: &SemaphoreName) -> Result<Option<Semaphore>, Error> {
        self.memory.semaphore(name).await
    }
    async fn semaphores(&self, page: &Page<SemaphoreName>) -> Result<Vec<Semaphore>, Error> {
        self.memory.semaphores(page).await
    }
    async fn request(&self, external_id: &ExternalId) -> Result<Option<Request>, Error> {
        self.memory.request(external_id).await
    }
    async fn holders(&self, of: &Holders, page: &Page<ExternalId>) -> Result<Vec<Request>, Error> {
        self.memory.holders(of, page).await
    }
    async fn history(
        &self,
        name: &SemaphoreName,
        limit: u32,
    ) -> Result<Vec<CapacityChange>, Error> {
        self.memory.history(name, limit).await
    }
    async fn due(&self, which: Due<'_>, limit: u32) -> Result<Vec<Request>, Error> {
        self.memory.due(which, limit).await
    }
    async fn stale(&self, age: Duration, page: &Page<Timestamp>) -> Result<Stale, Error> {
        self.memory.stale(age, page).await
    }

    async fn owners(&self, page: &Page<Owner>) -> Result<Vec<Owner>, Error> {
        (self.owners)(page)?;
        self.memory.owners(page).await
    }
    async fn purge(&self, what: Purge, limit: u32) -> Result<u64, Error> {
        self.memory.purge(what, limit).await
    }
    async fn recount(&self) -> Result<Recount, Error> {
        self.memory.recount().await
    }
    async fn repair(&self, name: &SemaphoreName) -> Result<Option<Semaphore>, Error> {
        self.memory.repair(name).await
    }
    async fn migrate(&self) -> Result<(), Error> {
        tokio::time::sleep(self.migrate).await;
        self.memory.migrate().await
    }
    async fn ready(&self) -> Result<(), Error> {
        if !self.migrate.is_zero() {
            return Err(Error::new(Kind::Schema, "the schema is missing"));
        }
        self.memory.ready().await
    }
}
