//! A layer over a store that records its calls and how long they take, or delays its answers.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use lockhouse::Lockhouse;
use lockhouse_core::Outcome;
use lockhouse_core::store::{Batch, Error, FullStore, Layer, Purge};
use tokio::time::sleep;

/// A store between an engine and the true store.
#[derive(Debug)]
pub struct Watched {
    store: Arc<dyn FullStore>,
    seen: Mutex<Seen>,
    /// How long after its commit a batch with an ask for permits is answered.
    late_by: Duration,
}

/// The calls so far.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// For each batch: the number of commands, and how long it took, waiting included.
    pub batches: Vec<(usize, Duration)>,
    /// For each answered purge: the number of rows, and how long it took, waiting included.
    pub purges: Vec<(u64, Duration)>,
}

impl Seen {
    /// How long the longest purge took.
    pub fn longest_purge(&self) -> Duration {
        let took = self.purges.iter().map(|(_, took)| *took);
        took.max().unwrap_or_default()
    }

    /// How many rows were purged.
    pub fn purged(&self) -> u64 {
        self.purges.iter().map(|(rows, _)| rows).sum()
    }
}

impl Watched {
    /// Watches the store at `url`, with a separate client.
    pub async fn open(url: &str) -> (Arc<Self>, Lockhouse) {
        let watched = Arc::new(Self {
            store: lockhouse_stores::open(url).unwrap(),
            seen: Mutex::default(),
            late_by: Duration::ZERO,
        });
        watched.store.migrate().await.unwrap();
        let lockhouse = Lockhouse::with_store(Arc::clone(&watched) as Arc<dyn FullStore>);
        (watched, lockhouse)
    }

    /// The same store, which answers a caller that asks for permits `late_by` after it has granted them.
    pub(crate) fn late(store: Arc<dyn FullStore>, late_by: Duration) -> Arc<dyn FullStore> {
        Arc::new(Self {
            store,
            seen: Mutex::default(),
            late_by,
        })
    }

    /// The calls since the last time.
    pub fn take(&self) -> Seen {
        std::mem::take(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn see(&self, note: impl FnOnce(&mut Seen)) {
        note(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Layer for Watched {
    fn inner(&self) -> &dyn FullStore {
        &*self.store
    }

    async fn transact(&self, batch: &Batch) -> Result<Vec<Outcome>, Error> {
        let begun = Instant::now();
        let outcomes = self.store.transact(batch).await;
        if batch.commands.iter().any(|command| command.ask().is_some()) {
            sleep(self.late_by).await;
        }
        let took = begun.elapsed();
        self.see(|seen| seen.batches.push((batch.commands.len(), took)));
        outcomes
    }

    async fn purge(&self, what: Purge, limit: u32) -> Result<u64, Error> {
        let begun = Instant::now();
        let purged = self.store.purge(what, limit).await?;
        let took = begun.elapsed();
        self.see(|seen| seen.purges.push((purged, took)));
        Ok(purged)
    }
}
