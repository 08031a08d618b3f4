//! A store that is broken on purpose, so that tests can show that they would notice.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockhouse_core::store::Batch;
use lockhouse_core::{Command, Decision, Loaded, Outcome, Semaphore, SemaphoreName};

use super::Memory;

/// How long the rows are left alone between reading and writing, where they are not locked.
const RACE: Duration = Duration::from_millis(3);

type Decide = dyn Fn(Loaded, &[Command]) -> Decision + Send + Sync;

/// What a broken store does instead.
pub struct Sabotage {
    decide: Box<Decide>,
    locks: bool,
    stale_looks: AtomicBool,
}

impl Sabotage {
    /// Decides by `decide`; takes its lock, or forgets to.
    pub fn new(
        locks: bool,
        decide: impl Fn(Loaded, &[Command]) -> Decision + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            decide: Box::new(decide),
            locks,
            stale_looks: AtomicBool::new(false),
        })
    }

    /// From here on, reads without locks say what may have been long ago: that all semaphores are
    /// free, and that all requests seem due. Nothing must come of that, as it is looked at again.
    pub fn look_stale(&self, stale: bool) {
        self.stale_looks.store(stale, Ordering::Relaxed);
    }
}

impl fmt::Debug for Sabotage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sabotage")
            .field("locks", &self.locks)
            .finish_non_exhaustive()
    }
}

impl Memory {
    /// An empty store that is broken.
    pub fn sabotaged(sabotage: Arc<Sabotage>) -> Self {
        Self::default().with_sabotage(sabotage)
    }

    /// The same store, broken.
    pub fn with_sabotage(mut self, sabotage: Arc<Sabotage>) -> Self {
        self.sabotage = Some(sabotage);
        self
    }

    pub(super) async fn transact_wrongly(
        &self,
        batch: &Batch,
        sabotage: &Sabotage,
    ) -> Vec<Outcome> {
        if sabotage.locks {
            let mut rows = self.rows();
            let decision = (sabotage.decide)(self.load(&rows, batch), &batch.commands);
            rows.save(decision.changes);
            return decision.outcomes;
        }
        let loaded = self.load(&self.rows(), batch);
        tokio::time::sleep(RACE).await;
        let decision = (sabotage.decide)(loaded, &batch.commands);
        self.rows().save(decision.changes);
        decision.outcomes
    }

    pub(super) fn looks_are_stale(&self) -> bool {
        let sabotage = self.sabotage.as_ref();
        sabotage.is_some_and(|sabotage| sabotage.stale_looks.load(Ordering::Relaxed))
    }

    /// The semaphore as if nobody held it, where looks are stale.
    pub(super) fn as_it_was(&self, name: &SemaphoreName) -> Option<Semaphore> {
        let stale = self.looks_are_stale();
        let semaphore = self.rows().semaphores.get(name).filter(|_| stale).cloned();
        semaphore.map(|semaphore| Semaphore {
            in_use: 0,
            ..semaphore
        })
    }
}
