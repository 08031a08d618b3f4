//! A process that acquires also sweeps a little, so that lapsed holds do not pile up where no upkeep runs.

use std::time::Duration;

use lockhouse_core::store::{Due, Purge};

use super::lapsed::lapse;
use super::{Engine, retry};
use crate::{Error, Upkeep};

/// How many requests it ends at once, and how many sessions it deletes. It takes a few milliseconds.
const SOME: u32 = 100;

/// The list of waiters of a process that died is deleted after so long.
const SHOWN_WAITERS_AFTER: Duration = Duration::from_secs(60 * 60);

impl Engine {
    /// Ends some of what has lapsed, on whatever semaphore, in the background; if it is time for that.
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
                    tracing::debug!(%error, "what has lapsed was not ended, trying later")
                }
            }
        });
    }

    /// Deletes lists of waiters that their processes left behind.
    pub(crate) async fn forget_shown(&self, batch: u32) -> Result<(), Error> {
        let forget = || self.store.forget_shown(SHOWN_WAITERS_AFTER, batch);
        retry::read(retry::deadline(), forget).await.map(drop)
    }

    /// Whether there may be more.
    async fn end_some(&self) -> Result<bool, Error> {
        let deadline = retry::deadline();
        let lapsed = Due::Lapsed { on: None };
        let due = retry::read(deadline, || self.store.due(lapsed, SOME)).await?;
        let found = due.len();
        self.end_each(due, lapse, deadline).await?;
        let sessions = Purge::Sessions {
            age: Upkeep::default().sessions_after,
        };
        let gone = retry::read(deadline, || self.store.purge(sessions, SOME)).await?;
        self.forget_shown(SOME).await?;
        Ok(found == SOME as usize || gone == u64::from(SOME))
    }
}
