//! The status of semaphores: their rows, and how many calls wait for them at all processes.
//!
//! A process that died leaves its entries in the lines. It counts as waiting only while its entry or its published list
//! is new.

use std::collections::HashMap;
use std::time::Duration;

use lockhouse_core::store::ShownAt;
use lockhouse_core::{Line, SemaphoreName, SemaphoreRow};

use super::{Engine, retry};
use crate::{Error, SemaphoreStatus};

/// A process that wrote neither its entry nor its list for this long does not count as waiting. A process writes its list
/// every 5 s, and up to 13 s apart in a line of many processes.
const ALIVE_FOR: Duration = Duration::from_secs(8);
const ALIVE_IN_A_CROWD_FOR: Duration = Duration::from_secs(30);
const FEW: usize = 16;

/// The most semaphores for which one call reads the times of the lists.
const PIECE: usize = 500;

impl Engine {
    /// The status of each of `semaphores`, with the number of its waiters here and at other
    /// processes.
    pub(super) async fn statuses(&self, semaphores: Vec<SemaphoreRow>) -> Vec<SemaphoreStatus> {
        let elsewhere = self.waiting_elsewhere(&semaphores).await;
        let state = self.state();
        let all = semaphores.into_iter().zip(elsewhere);
        let all = all.map(|(semaphore, elsewhere)| {
            let here = state.waiting.on(&semaphore.name);
            SemaphoreStatus {
                semaphore,
                waiting: here.saturating_add(elsewhere),
            }
        });
        all.collect()
    }

    /// The [status](Self::statuses) of one semaphore.
    pub(super) async fn status(&self, semaphore: SemaphoreRow) -> Result<SemaphoreStatus, Error> {
        let status = self.statuses(vec![semaphore]).await.pop();
        status.ok_or_else(|| Error::Internal("a semaphore has no status".into()))
    }

    /// How many waiters of each of `semaphores` wait at other processes. A process that died is
    /// counted for a few seconds only.
    async fn waiting_elsewhere(&self, semaphores: &[SemaphoreRow]) -> Vec<u32> {
        let process = self.state().waiting.process;
        let by_entries = |semaphore: &SemaphoreRow| semaphore.line.waiting_elsewhere(process);
        let waited_for = semaphores.iter().filter(|it| by_entries(it) > 0);
        let names: Vec<_> = waited_for.map(|it| it.name.clone()).collect();
        let (mut now, mut written) = (None, HashMap::new());
        for names in names.chunks(PIECE) {
            match self.shown_at(names, semaphores.len() == 1).await {
                Ok(shown) => {
                    now = Some(shown.now);
                    let lists = shown.lists.into_iter();
                    written.extend(lists.map(|(name, process, at)| ((name, process), at)));
                }
                Err(error) => {
                    tracing::debug!(%error, "waiters of processes that died may be counted");
                    now = None;
                    break;
                }
            }
        }
        let count = |semaphore: &SemaphoreRow| {
            let (line, Some(now)) = (&semaphore.line, now) else {
                return by_entries(semaphore);
            };
            let alive_for = alive_for(line);
            let oldest = now.saturating_sub(alive_for).unwrap_or(now);
            line.waiting_elsewhere_at(process, now, alive_for, |process| {
                let at = written.get(&(semaphore.name.clone(), process));
                at.is_some_and(|at| *at >= oldest)
            })
        };
        semaphores.iter().map(count).collect()
    }

    /// When the lists for `names` were written. The read for a single semaphore is no listing.
    async fn shown_at(&self, names: &[SemaphoreName], is_single: bool) -> Result<ShownAt, Error> {
        let deadline = retry::deadline();
        match is_single {
            true => {
                self.retry
                    .read(deadline, || self.store.shown_at(names))
                    .await
            }
            false => self.shared.listings.shown_at(names, deadline).await,
        }
    }
}

/// For how long a process in `line` counts as alive after it has written its list or its entry.
fn alive_for(line: &Line) -> Duration {
    match line.entries().len() <= FEW {
        true => ALIVE_FOR,
        false => ALIVE_IN_A_CROWD_FOR,
    }
}
