//! A process that acquires also sweeps a little, so that lapsed requests do not pile up where no
//! upkeep runs.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockhouse_core::store::{Due, Purge};
use tokio::time::{Instant, sleep};

use super::lapsed::lapse;
use super::{Engine, retry};
use crate::{Error, Upkeep};

/// How often a process that acquires looks for lapsed requests on all semaphores.
const EVERY: Duration = Duration::from_secs(60);

/// The interval while it finds some.
const WHILE_THERE_IS_SOME: Duration = Duration::from_secs(1);

/// How many requests it ends at once, and how many sessions it deletes. It takes a few milliseconds.
const SOME: u32 = 100;

/// The age at which a dead process's list of waiters is deleted. A living process writes it every 5 s.
const SHOWN_WAITERS_AFTER: Duration = Duration::from_secs(5 * 60);

/// When to look next.
#[derive(Debug)]
pub(super) struct SweepTimer(Mutex<Instant>);

impl SweepTimer {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Instant::now() + EVERY))
    }

    /// Records that there are lapsed requests, so that the next look comes soon.
    pub(super) fn go_on(&self) {
        let mut next = self.next();
        *next = (*next).min(Instant::now() + WHILE_THERE_IS_SOME);
    }

    /// Whether it is time for a look. If so, the caller must do it.
    fn is_due(&self) -> bool {
        let now = Instant::now();
        let mut next = self.next();
        let is_due = *next <= now;
        if is_due {
            *next = now + EVERY;
        }
        is_due
    }

    fn next(&self) -> MutexGuard<'_, Instant> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

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
        retry::read(&self.shared.retries, retry::deadline(), forget).await
    }

    /// Ends some. Returns whether there may be more.
    async fn end_some(&self) -> Result<bool, Error> {
        let deadline = retry::deadline();
        let lapsed = Due::Lapsed { on: None };
        let due = retry::read(&self.shared.retries, deadline, || {
            self.store.due(lapsed, SOME)
        })
        .await?;
        let found = due.len();
        self.end_each(due, lapse, deadline).await?;
        let sessions = Purge::Sessions {
            age: Upkeep::default().sessions_after,
        };
        let gone = retry::read(&self.shared.retries, deadline, || {
            self.store.purge(sessions, SOME)
        })
        .await?;
        let forgotten = self.forget_some_shown(SOME).await?;
        let is_more = |deleted| deleted == u64::from(SOME);
        Ok(found == SOME as usize || is_more(gone) || is_more(forgotten))
    }
}
