//! A process that acquires also sweeps a little, so that lapsed requests do not pile up where no
//! upkeep runs.

use std::time::Duration;

use lockhouse_core::store::{Due, Purge};
use tokio::time::sleep;

use super::lapsed::lapse;
use super::{Engine, retry};
use crate::{Error, Upkeep};

/// How many requests it ends at once, and how many sessions it deletes. It takes a few milliseconds.
const SOME: u32 = 100;

/// The age at which a dead process's list of waiters is deleted. A living process writes it every 5 s.
const SHOWN_WAITERS_AFTER: Duration = Duration::from_secs(5 * 60);

impl Engine {
    /// If it is time, ends some lapsed requests of any semaphore in the background.
    pub(super) fn sweep_if_due(&self) {
        if !self.shared.sweep_timer.is_due() {
            return;
        }
        let engine = self.clone();
        tokio::spawn(async move {
            match engine.end_some().await {
                Ok(true) => engine.shared.sweep_timer.go_on(),
                Ok(false) => {}
                Err(error) => {
                    tracing::debug!(%error, "lapsed requests were not ended, trying later")
                }
            }
        });
    }

    /// Deletes the lists of waiters of processes that died, `batch` by `batch`.
    pub(crate) async fn forget_shown(&self, batch: u32, pause: Duration) -> Result<(), Error> {
        while self.forget_some_shown(batch).await? > 0 {
            sleep(pause).await;
        }
        Ok(())
    }

    async fn forget_some_shown(&self, most: u32) -> Result<u64, Error> {
        let forget = || self.store.forget_shown(SHOWN_WAITERS_AFTER, most);
        let (forgotten, _) = self.retry.write(retry::deadline(), forget).await?;
        Ok(forgotten)
    }

    /// Ends some lapsed requests, and deletes some lapsed sessions and lists of dead processes. Returns whether there may
    /// be more.
    async fn end_some(&self) -> Result<bool, Error> {
        let deadline = retry::deadline();
        let lapsed = Due::Lapsed { on: None };
        let due = self
            .retry
            .read(deadline, || self.store.due(lapsed, SOME))
            .await?;
        let found = due.len();
        self.end_each(due, lapse, deadline).await?;
        let sessions = Purge::Sessions {
            age: Upkeep::default().sessions_after,
        };
        let (gone, _) = self
            .retry
            .write(deadline, || self.store.purge(sessions, SOME))
            .await?;
        let forgotten = self.forget_some_shown(SOME).await?;
        let is_more = |deleted| deleted == u64::from(SOME);
        Ok(found == SOME as usize || is_more(gone) || is_more(forgotten))
    }
}
