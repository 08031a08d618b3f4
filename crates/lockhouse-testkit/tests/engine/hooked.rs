//! A store in memory with hooks for tests.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use std::time::Duration;

use lockhouse::Lockhouse;
use lockhouse_core::store::{Batch, Call, Error, FullStore, Kind, Layer, Store};
use lockhouse_core::{Command, Outcome};
use lockhouse_stores::Memory;

/// The commands of another process that come before a batch, or the error of the batch.
type Hook = dyn Fn(&Batch) -> Result<Vec<Command>, Error> + Send + Sync;

/// Whether the answer to a batch, which was applied, is lost.
type Loses = dyn Fn(&Batch) -> bool + Send + Sync;

pub(crate) struct Hooked {
    memory: Memory,
    before: Box<Hook>,
    loses: Box<Loses>,
    /// How long a look for due requests takes.
    look: Duration,
    /// How long a listing takes.
    list: Duration,
    listings: Arc<Listings>,
}

/// The number of listings under way on a store, and the greatest number so far.
#[derive(Debug, Default)]
pub(crate) struct Listings {
    now: AtomicUsize,
    pub(crate) most: AtomicUsize,
}

impl Hooked {
    fn on(memory: Memory) -> Self {
        Self {
            memory,
            before: Box::new(|_| Ok(Vec::new())),
            loses: Box::new(|_| false),
            look: Duration::ZERO,
            list: Duration::ZERO,
            listings: Arc::default(),
        }
    }

    fn open(self) -> Lockhouse {
        Lockhouse::with_store(Arc::new(self))
    }
}

/// A client of a store in which `before` runs before each batch.
pub(crate) fn hooked(
    before: impl Fn(&Batch) -> Result<Vec<Command>, Error> + Send + Sync + 'static,
) -> Lockhouse {
    let mut store = Hooked::on(Memory::new());
    store.before = Box::new(before);
    store.open()
}

/// A client of `memory` that loses answers after the commit.
pub(crate) fn losing(
    memory: Memory,
    loses: impl Fn(&Batch) -> bool + Send + Sync + 'static,
) -> Lockhouse {
    let mut store = Hooked::on(memory);
    store.loses = Box::new(loses);
    store.open()
}

/// A client of a store whose looks for due requests take `look`.
pub(crate) fn slow_to_look(look: Duration) -> Lockhouse {
    let mut store = Hooked::on(Memory::new());
    store.look = look;
    store.open()
}

/// A client of a store whose listings take `list`.
pub(crate) fn slow_to_list(list: Duration) -> (Lockhouse, Arc<Listings>) {
    let mut store = Hooked::on(Memory::new());
    store.list = list;
    let listings = Arc::clone(&store.listings);
    (store.open(), listings)
}

impl fmt::Debug for Hooked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.memory.fmt(f)
    }
}

impl Layer for Hooked {
    fn inner(&self) -> &dyn FullStore {
        &self.memory
    }

    async fn around<T: Send>(
        &self,
        call: Call<'_>,
        answer: impl Future<Output = Result<T, Error>> + Send,
    ) -> Result<T, Error> {
        match call {
            Call::Due => tokio::time::sleep(self.look).await,
            Call::Holders => {
                let now = self.listings.now.fetch_add(1, Ordering::SeqCst) + 1;
                self.listings.most.fetch_max(now, Ordering::SeqCst);
                tokio::time::sleep(self.list).await;
                self.listings.now.fetch_sub(1, Ordering::SeqCst);
            }
            _ => {}
        }
        answer.await
    }

    async fn transact(&self, batch: &Batch) -> Result<Vec<Outcome>, Error> {
        for command in (self.before)(batch)? {
            let outcomes = self.memory.transact(&Batch::new(vec![command])).await?;
            assert!(outcomes[0].is_ok(), "{outcomes:?}");
        }
        let outcomes = self.memory.transact(batch).await?;
        if (self.loses)(batch) {
            let lost = Error::new(Kind::Unknown, "the answer to a commit was lost");
            return Err(lost.after_deciding(outcomes));
        }
        Ok(outcomes)
    }
}
