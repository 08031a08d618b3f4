//! Polls the rows that other transactions keep locked, while commands need them.

use std::sync::Arc;
use std::time::Duration;

use lockhouse_core::store::Batch;
use lockhouse_core::{Command, Footprint, SemaphoreName};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::driver::Driver;
use super::retry;

const POLLED_EVERY: Duration = Duration::from_millis(50);

/// The task that polls. However it ends, another may begin.
struct LockPoller(Arc<Driver>);

impl Drop for LockPoller {
    fn drop(&mut self) {
        self.0.state().has_lock_poller = false;
    }
}

impl Driver {
    /// Begins to poll, until no row is known to be locked.
    pub(super) fn poll_locked_rows(self: &Arc<Self>) {
        let poller = LockPoller(Arc::clone(self));
        tokio::spawn(async move { poller.run().await });
    }

    /// Waits for `name` in the database's own queue.
    async fn wait_for(self: Arc<Self>, name: SemaphoreName) {
        let looked_at = Footprint {
            semaphores: [name.clone()].into(),
            ..Footprint::default()
        };
        let look = Batch::new(vec![Command::look(name)]);
        if self.store.transact(&look).await.is_ok() {
            self.update(|state| state.unlock(&looked_at, &Footprint::default()));
        }
    }
}

impl LockPoller {
    async fn run(self) {
        let driver = &self.0;
        let mut waits: Option<JoinHandle<()>> = None;
        loop {
            // Processes that poll the same rows do not poll them in step.
            sleep(POLLED_EVERY.mul_f64(0.8 + 0.4 * fastrand::f64())).await;
            let rows = driver.state().blocked.rows();
            if rows.is_empty() {
                return;
            }
            match retry::read(retry::deadline(), || driver.store.locked(&rows)).await {
                Ok(locked) => driver.update(|state| state.unlock(&rows, &locked)),
                Err(error) => {
                    tracing::warn!(%error, "locked rows could not be polled, trying again")
                }
            }
            driver.update(|state| state.give_up_blocked(Instant::now()));
            if waits.as_ref().is_none_or(JoinHandle::is_finished) {
                let name = driver.state().blocked.next_to_wait_for();
                waits = name.map(|name| tokio::spawn(Arc::clone(driver).wait_for(name)));
            }
        }
    }
}
