//! A store that counts what is asked of it, and passes everything on.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use lockhouse_core::store::{Batch, Due, Error, Holders, Page, Purge, Stale, Store};
use lockhouse_core::{
    CapacityChange, ExternalId, Footprint, Outcome, Owner, Recount, Request, Semaphore,
    SemaphoreName, Timestamp,
};

use crate::measured::Work;

/// Counts the transactions on a store.
#[derive(Debug)]
pub(super) struct Counted {
    store: Arc<dyn Store>,
    count: Arc<Count>,
}

/// What was counted, by any number of stores.
#[derive(Debug, Default)]
pub(super) struct Count {
    batches: AtomicU64,
    commands: AtomicU64,
    nanoseconds: AtomicU64,
}

impl Count {
    pub(super) fn work(&self) -> Work {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Work {
            batches: read(&self.batches),
            commands: read(&self.commands),
            seconds: read(&self.nanoseconds) as f64 / 1e9,
        }
    }
}

impl Counted {
    pub(super) fn new(store: Arc<dyn Store>, count: Arc<Count>) -> Self {
        Self { store, count }
    }
}

#[async_trait]
impl Store for Counted {
    async fn transact(&self, batch: &Batch) -> Result<Vec<Outcome>, Error> {
        let begun = Instant::now();
        let outcomes = self.store.transact(batch).await;
        let took = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let add = |counter: &AtomicU64, more| counter.fetch_add(more, Ordering::Relaxed);
        add(&self.count.batches, 1);
        add(&self.count.commands, batch.commands.len() as u64);
        add(&self.count.nanoseconds, took);
        outcomes
    }

    async fn locked(&self, rows: &Footprint) -> Result<Footprint, Error> {
        self.store.locked(rows).await
    }

    async fn semaphore(&self, name: &SemaphoreName) -> Result<Option<Semaphore>, Error> {
        self.store.semaphore(name).await
    }

    async fn semaphores(&self, page: &Page<SemaphoreName>) -> Result<Vec<Semaphore>, Error> {
        self.store.semaphores(page).await
    }

    async fn semaphores_ever(&self, page: &Page<SemaphoreName>) -> Result<Vec<Semaphore>, Error> {
        self.store.semaphores_ever(page).await
    }

    async fn named(&self, names: &[SemaphoreName]) -> Result<Vec<Semaphore>, Error> {
        self.store.named(names).await
    }

    async fn changed(&self, on: &BTreeSet<SemaphoreName>) -> BTreeSet<SemaphoreName> {
        self.store.changed(on).await
    }

    async fn request(&self, external_id: &ExternalId) -> Result<Option<Request>, Error> {
        self.store.request(external_id).await
    }

    async fn holders(&self, of: &Holders, page: &Page<ExternalId>) -> Result<Vec<Request>, Error> {
        self.store.holders(of, page).await
    }

    async fn history(
        &self,
        name: &SemaphoreName,
        limit: u32,
    ) -> Result<Vec<CapacityChange>, Error> {
        self.store.history(name, limit).await
    }

    async fn due(&self, which: Due<'_>, limit: u32) -> Result<Vec<Request>, Error> {
        self.store.due(which, limit).await
    }

    async fn stale(&self, age: Duration, page: &Page<Timestamp>) -> Result<Stale, Error> {
        self.store.stale(age, page).await
    }

    async fn owners(&self, page: &Page<Owner>) -> Result<Vec<Owner>, Error> {
        self.store.owners(page).await
    }

    async fn purge(&self, what: Purge, limit: u32) -> Result<u64, Error> {
        self.store.purge(what, limit).await
    }

    async fn recount(&self) -> Result<Recount, Error> {
        self.store.recount().await
    }

    async fn repair(&self, name: &SemaphoreName) -> Result<Option<Semaphore>, Error> {
        self.store.repair(name).await
    }

    async fn migrate(&self) -> Result<(), Error> {
        self.store.migrate().await
    }

    async fn ready(&self) -> Result<(), Error> {
        self.store.ready().await
    }
}
