//! A store in memory whose calls take their time, or never end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockhouse_core::Outcome;
use lockhouse_core::store::{Batch, Call, Error, FullStore, Layer, Store};
use lockhouse_stores::Memory;
use tokio::sync::Semaphore;
use tokio::time::sleep;

#[derive(Debug)]
pub(crate) struct SlowStore {
    memory: Memory,
    /// How many calls it answers at a time, in their order.
    at_once: Semaphore,
    /// How long it takes for each.
    takes: Duration,
    hangs: AtomicBool,
}

impl SlowStore {
    pub(crate) fn new(at_once: usize, takes: Duration) -> Self {
        Self {
            memory: Memory::default(),
            at_once: Semaphore::new(at_once),
            takes,
            hangs: AtomicBool::new(false),
        }
    }

    /// From now on no call ends.
    pub(crate) fn hang(&self) {
        self.hangs.store(true, Ordering::Relaxed);
    }

    /// Later calls end again.
    pub(crate) fn go_on(&self) {
        self.hangs.store(false, Ordering::Relaxed);
    }

    async fn slowly<T>(&self, answer: impl Future<Output = T>) -> T {
        if self.hangs.load(Ordering::Relaxed) {
            return std::future::pending().await;
        }
        // It is never closed.
        let _place = self.at_once.acquire().await.unwrap();
        sleep(self.takes).await;
        answer.await
    }
}

impl Layer for SlowStore {
    fn inner(&self) -> &dyn FullStore {
        &self.memory
    }

    async fn around<T: Send>(
        &self,
        _: Call<'_>,
        answer: impl Future<Output = Result<T, Error>> + Send,
    ) -> Result<T, Error> {
        self.slowly(answer).await
    }

    async fn transact(&self, batch: &Batch) -> Result<Vec<Outcome>, Error> {
        self.slowly(self.memory.transact(batch)).await
    }
}
