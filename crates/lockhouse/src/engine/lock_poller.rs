//! Polls the rows that other transactions keep locked, while commands need them.

use std::time::Duration;

use lockhouse_core::{Footprint, Gap, SemaphoreName};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::apply::Response;
use super::driver::Driver;
use super::reply_to::{Answer, ReplyTo};
use super::retry;

const POLLED_EVERY: Duration = Duration::from_millis(50);

/// How many semaphores are waited for in the database's own lock queue at once, and which part of the store's connections
/// that takes at most.
const MOST_WAITS: usize = 3;
const CONNECTIONS_A_WAIT: usize = 4;

/// The polling task. Dropping it lets another begin.
struct LockPoller {
    driver: Driver,
    has_ended: bool,
}

impl Drop for LockPoller {
    fn drop(&mut self) {
        if !self.has_ended {
            self.driver.state().has_lock_poller = false;
        }
    }
}

/// How many waits in the database's own lock queue leave most of these connections to others.
fn most_waits(connections: usize) -> usize {
    (connections / CONNECTIONS_A_WAIT).clamp(1, MOST_WAITS)
}

impl Driver {
    /// Starts the polling task if a row is known to be locked and no task runs.
    pub(super) fn poll_locked_rows(&self) {
        let mut state = self.state();
        if state.blocked.is_empty() || state.has_lock_poller {
            return;
        }
        state.has_lock_poller = true;
        drop(state);
        let poller = LockPoller {
            driver: self.clone(),
            has_ended: false,
        };
        tokio::spawn(async move { poller.run().await });
    }

    /// Records that of the rows `looked_at` only `locked` are still locked, and queues the commands
    /// that need none of those.
    fn unlock(&self, looked_at: &Footprint, locked: &Footprint) {
        self.state().unlock(looked_at, locked);
        self.fill_lanes();
    }

    /// Waits for `gap` in the database's own lock queue, for as long as the store waits for a lock.
    async fn wait_for_gap(self, gap: Gap) {
        let looked_at = Footprint {
            gaps: [gap].into(),
            ..Footprint::default()
        };
        match self.store.locked(&looked_at).await {
            Ok(locked) => self.unlock(&looked_at, &locked),
            Err(error) => tracing::debug!(%error, "a locked gap could not be looked at"),
        }
    }
}

/// A wait for a semaphore in the database's own lock queue. Dropping it lets another begin.
struct LockWait {
    driver: Driver,
    name: SemaphoreName,
}

impl LockWait {
    async fn run(self) {
        let Self { driver, name } = &self;
        let lane = driver.state().take_for(name.clone());
        if !driver.run_lane(lane).await {
            return;
        }
        driver.state().unlock_in_turn(name.clone());
        driver.fill_lanes();
    }
}

impl Drop for LockWait {
    fn drop(&mut self) {
        self.driver.state().blocked.end_wait(&self.name);
    }
}

impl LockPoller {
    async fn run(mut self) {
        let driver = &self.driver;
        let most_waits = most_waits(driver.store.connections().most);
        let (mut waits, mut gaps): (Vec<JoinHandle<()>>, Option<JoinHandle<()>>) = (vec![], None);
        loop {
            // Processes that poll the same rows do not poll them in step.
            sleep(POLLED_EVERY.mul_f64(0.8 + 0.4 * fastrand::f64())).await;
            if driver.state().ends_lock_poller() {
                self.has_ended = true;
                return;
            }
            driver.poll_rows().await;
            driver.give_up();
            waits.retain(|wait| !wait.is_finished());
            while waits.len() < most_waits {
                // The mutex is unlocked before the spawn: a runtime that ends drops the wait there,
                // and that drop locks it.
                let name = driver.state().blocked.semaphore_to_wait_for();
                let Some(name) = name else {
                    break;
                };
                let driver = driver.clone();
                let wait = LockWait { driver, name };
                waits.push(tokio::spawn(wait.run()));
            }
            if gaps.as_ref().is_none_or(JoinHandle::is_finished) {
                let gap = driver.state().blocked.gap_to_wait_for();
                gaps = gap.map(|gap| tokio::spawn(driver.clone().wait_for_gap(gap)));
            }
        }
    }
}

impl Driver {
    async fn poll_rows(&self) {
        let rows = self.state().blocked.rows_to_poll();
        if rows.is_empty() {
            return;
        }
        match self
            .retry
            .read(retry::deadline(), || self.store.locked(&rows))
            .await
        {
            Ok(locked) => self.unlock(&rows, &locked),
            Err(error) => tracing::warn!(%error, "locked rows could not be polled, trying again"),
        }
    }

    /// Answers the callers whose deadline has come, and forgets those that went away.
    fn give_up(&self) {
        let over = self.state().give_up(Instant::now());
        for queued in over {
            let error = retry::stays_locked();
            if let ReplyTo::Caller(caller) = queued.reply_to {
                Response::Caller(caller.answer, Answer::Decided(Err(error))).send();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_for_locks_leave_most_connections_to_others() {
        let waits = [2, 4, 8, 16, 1_000].map(most_waits);
        assert_eq!(waits, [1, 1, 2, 3, 3]);
    }
}
