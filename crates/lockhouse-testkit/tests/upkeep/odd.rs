//! A store with faults that a test sets.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockhouse::Lockhouse;
use lockhouse_core::store::{Batch, Call, Error, FullStore, Kind, Layer, Page, Store};
use lockhouse_core::{Outcome, Owner};
use lockhouse_stores::Memory;

type OwnersHook = dyn Fn(&Page<Owner>) -> Result<(), Error> + Send + Sync;

/// A store in memory that is slow, or in trouble.
pub(crate) struct Odd {
    pub(crate) memory: Arc<Memory>,
    /// How long each batch takes.
    pub(crate) transact: Duration,
    /// How long a migration takes. The schema is missing before it.
    pub(crate) migrate: Duration,
    /// A hook that runs before a page of owners.
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

impl Layer for Odd {
    fn inner(&self) -> &dyn FullStore {
        &*self.memory
    }

    async fn around<T: Send>(
        &self,
        call: Call<'_>,
        answer: impl Future<Output = Result<T, Error>> + Send,
    ) -> Result<T, Error> {
        match call {
            Call::Owners(page) => (self.owners)(page)?,
            Call::Migrate => tokio::time::sleep(self.migrate).await,
            Call::Ready if !self.migrate.is_zero() => {
                return Err(Error::new(Kind::Schema, "the schema is missing"));
            }
            _ => {}
        }
        answer.await
    }

    async fn transact(&self, batch: &Batch) -> Result<Vec<Outcome>, Error> {
        tokio::time::sleep(self.transact).await;
        self.memory.transact(batch).await
    }
}
