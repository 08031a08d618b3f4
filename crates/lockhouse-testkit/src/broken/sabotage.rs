//! A store on the rows of the store in memory that decides wrongly, or decides without its lock.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockhouse_core::store::{
    Batch, Due, Error, FullStore, Holders, Layer, Listing as _, Maintenance as _, Page, Store,
};
use lockhouse_core::{
    Command, Decision, Loaded, NamePrefix, Outcome, Request, SemaphoreName, SemaphoreRow, Template,
    decide,
};
use lockhouse_stores::{Memory, MemoryTransaction};

/// The pause between reading and writing rows that are not locked.
const RACE: Duration = Duration::from_millis(3);

type Decide = dyn Fn(Loaded, &[Command]) -> Decision + Send + Sync;

/// The changes of a broken store.
pub struct Sabotage {
    decide: Box<Decide>,
    locks: bool,
    hides_origins: bool,
    stale_looks: AtomicBool,
}

impl Sabotage {
    /// Decides by `decide`. Takes its lock, or forgets to.
    pub fn new(
        locks: bool,
        decide: impl Fn(Loaded, &[Command]) -> Decision + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            decide: Box::new(decide),
            locks,
            hides_origins: false,
            stale_looks: AtomicBool::new(false),
        })
    }

    /// Hides that a template created a semaphore. Decides correctly otherwise.
    pub(super) fn hiding_origins() -> Arc<Self> {
        Arc::new(Self {
            decide: Box::new(decide_without_origins),
            locks: true,
            hides_origins: true,
            stale_looks: AtomicBool::new(false),
        })
    }

    /// From now on, reads without locks are stale: all semaphores seem free, and all requests seem due. That must have no
    /// effect, because the store checks again under locks.
    pub fn look_stale(&self, stale: bool) {
        self.stale_looks.store(stale, Ordering::Relaxed);
    }

    fn looks_are_stale(&self) -> bool {
        self.stale_looks.load(Ordering::Relaxed)
    }
}

/// Decides as if no template had created a semaphore, and saves that one did.
fn decide_without_origins(mut loaded: Loaded, commands: &[Command]) -> Decision {
    let rows = loaded.semaphores.iter_mut();
    let origins: BTreeMap<_, _> = rows
        .filter_map(|(name, row)| Some((name.clone(), row.origin.take()?)))
        .collect();
    let mut decision = decide(loaded, commands);
    for row in &mut decision.changes.semaphores {
        let origin = origins.get(&row.name).cloned();
        row.origin = row.origin.take().or(origin).filter(|_| row.exists());
    }
    decision
}

/// The store in memory, broken.
pub struct Broken {
    memory: Arc<Memory>,
    sabotage: Arc<Sabotage>,
}

impl Broken {
    /// The rows of `memory`, under `sabotage`.
    pub fn new(memory: Arc<Memory>, sabotage: Arc<Sabotage>) -> Self {
        Self { memory, sabotage }
    }

    /// The semaphore. It seems free if reads are stale.
    fn as_it_was(&self, semaphore: SemaphoreRow) -> SemaphoreRow {
        let in_use = match self.sabotage.looks_are_stale() {
            true => 0,
            false => semaphore.in_use,
        };
        let origin = semaphore.origin.filter(|_| !self.sabotage.hides_origins);
        SemaphoreRow {
            in_use,
            origin,
            ..semaphore
        }
    }
}

/// Loads all rows that `batch` touches. A broken store may hold permits of a semaphore that has no row.
fn load(transaction: &MemoryTransaction<'_>, batch: &Batch) -> Loaded {
    let mut footprint = batch.footprint.clone();
    let mut loaded = transaction.load(&footprint);
    for _ in 0..3 {
        if !footprint.grow(&batch.commands, &loaded) {
            break;
        }
        loaded = transaction.load(&footprint);
    }
    loaded
}

impl fmt::Debug for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Broken")
            .field("locks", &self.sabotage.locks)
            .finish_non_exhaustive()
    }
}

impl Layer for Broken {
    fn inner(&self) -> &dyn FullStore {
        &*self.memory
    }

    async fn transact(&self, batch: &Batch) -> Result<Vec<Outcome>, Error> {
        let decide = &self.sabotage.decide;
        if self.sabotage.locks {
            let mut transaction = self.memory.begin();
            let decision = decide(load(&transaction, batch), &batch.commands);
            transaction.save(decision.changes);
            return Ok(decision.outcomes);
        }
        let loaded = load(&self.memory.begin(), batch);
        tokio::time::sleep(RACE).await;
        let decision = decide(loaded, &batch.commands);
        self.memory.begin().save(decision.changes);
        Ok(decision.outcomes)
    }

    async fn semaphore(&self, name: &SemaphoreName) -> Result<Option<SemaphoreRow>, Error> {
        let found = self.memory.semaphore(name).await?;
        Ok(found.map(|semaphore| self.as_it_was(semaphore)))
    }

    async fn named(&self, names: &[SemaphoreName]) -> Result<Vec<SemaphoreRow>, Error> {
        let found = self.memory.named(names).await?;
        let found = found.into_iter();
        Ok(found.map(|semaphore| self.as_it_was(semaphore)).collect())
    }

    /// All semaphores that the template made. The caller checks each again.
    async fn to_follow(
        &self,
        template: &Template,
        limit: u32,
    ) -> Result<Vec<SemaphoreName>, Error> {
        let page = Page { after: None, limit };
        let prefix = NamePrefix::parse(template.pattern.prefix()).unwrap();
        let named = self.memory.semaphores(Some(&prefix), &page).await?;
        let made = named.into_iter().filter(|s| s.origin.is_some());
        Ok(made.map(|semaphore| semaphore.name).collect())
    }

    async fn due(&self, which: Due<'_>, limit: u32) -> Result<Vec<Request>, Error> {
        if !self.sabotage.looks_are_stale() {
            return self.memory.due(which, limit).await;
        }
        let all_live = Page { after: None, limit };
        let live = self.memory.holders(&Holders::default(), &all_live).await?;
        Ok(live.requests)
    }
}
