//! A layer over a store that counts the calls and passes them on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use lockhouse_core::Outcome;
use lockhouse_core::store::{Batch, Error, FullStore, Layer};

use crate::measured::Work;

/// Counts the transactions on a store.
#[derive(Debug)]
pub(super) struct Counted {
    store: Arc<dyn FullStore>,
    count: Arc<Count>,
}

/// The counts of any number of stores.
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
    pub(super) fn new(store: Arc<dyn FullStore>, count: Arc<Count>) -> Self {
        Self { store, count }
    }
}

impl Layer for Counted {
    fn inner(&self) -> &dyn FullStore {
        &*self.store
    }

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
}
