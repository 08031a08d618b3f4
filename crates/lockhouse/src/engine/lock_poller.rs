//! Polls the rows that other transactions keep locked, while commands need them.

use std::time::Duration;

use lockhouse_core::store::Batch;
use lockhouse_core::{Cause, Command, Footprint, Gap, SemaphoreName};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::apply::Response;
use super::driver::{Driver, State};
use super::queue::Queued;
use super::reply_to::{Answer, ReplyTo};
use super::retry;

const POLLED_EVERY: Duration = Duration::from_millis(50);

/// How long before its deadline a call gets the error that its row is locked.
const MARGIN: Duration = Duration::from_millis(200);

/// The polling task. Dropping it lets another begin.
struct LockPoller(Driver);

impl Drop for LockPoller {
    fn drop(&mut self) {
        self.0.state().has_lock_poller = false;
    }
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
        let poller = LockPoller(self.clone());
        tokio::spawn(async move { poller.run().await });
    }

    /// Records that of the rows `looked_at` only `locked` are still locked, and queues the commands
    /// that need none of those.
    fn unlock(&self, looked_at: &Footprint, locked: &Footprint) {
        let mut state = self.state();
        let free = state.blocked.unlock(looked_at, locked);
        state.put_back(free);
        drop(state);
        self.call();
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

    /// Waits for `name` in the database's own lock queue.
    async fn wait_for(self, name: SemaphoreName) {
        let looked_at = Footprint {
            semaphores: [name.clone()].into(),
            ..Footprint::default()
        };
        let look = Batch::new(vec![Command::look(name)]);
        if self.store.transact(&look).await.is_ok() {
            self.unlock(&looked_at, &Footprint::default());
        }
    }
}

impl LockPoller {
    async fn run(self) {
        let driver = &self.0;
        let (mut waits, mut gaps): (Option<JoinHandle<()>>, Option<JoinHandle<()>>) = (None, None);
        let is_over =
            |task: &Option<JoinHandle<()>>| task.as_ref().is_none_or(JoinHandle::is_finished);
        loop {
            // Processes that poll the same rows do not poll them in step.
            sleep(POLLED_EVERY.mul_f64(0.8 + 0.4 * fastrand::f64())).await;
            if driver.state().blocked.is_empty() {
                return;
            }
            driver.poll_rows().await;
            driver.give_up();
            if is_over(&waits) {
                let name = driver.state().blocked.semaphore_to_wait_for();
                waits = name.map(|name| tokio::spawn(driver.clone().wait_for(name)));
            }
            if is_over(&gaps) {
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
        match retry::read(&self.shared.retries, retry::deadline(), || {
            self.store.locked(&rows)
        })
        .await
        {
            Ok(locked) => self.unlock(&rows, &locked),
            Err(error) => tracing::warn!(%error, "locked rows could not be polled, trying again"),
        }
    }

    /// Answers the callers whose deadline has come, and forgets those that went away.
    fn give_up(&self) {
        let mut state = self.state();
        let State {
            blocked, waiting, ..
        } = &mut *state;
        let is_over = |queued: &Queued| match &queued.reply_to {
            ReplyTo::Caller(caller) => {
                caller.answer.is_closed()
                    || caller.deadline <= Instant::now() + MARGIN
                    || is_found_again(&queued.command)
            }
            ReplyTo::Waiter(place) => waiting.get(*place).is_none(),
            ReplyTo::Engine => true,
        };
        let over = blocked.give_up(is_over);
        drop(state);
        for queued in over {
            let error = retry::stays_locked();
            if let ReplyTo::Caller(caller) = queued.reply_to {
                Response::Caller(caller.answer, Answer::Decided(Err(error))).send();
            }
        }
    }
}

/// Whether the command is from a sweep, which finds the request again the next time.
fn is_found_again(command: &Command) -> bool {
    let Command::End { cause, .. } = command else {
        return false;
    };
    matches!(
        cause,
        Cause::Expired | Cause::OwnerSilent { .. } | Cause::Stale { .. }
    )
}
