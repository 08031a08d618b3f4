//! Polls the rows that other transactions keep locked, while commands need them.

use std::time::Duration;

use lockhouse_core::{Footprint, Gap, SemaphoreName};
use tokio::time::sleep;

use super::apply::Response;
use super::blocked::AwaitedLock;
use super::reply_to::{Answer, ReplyTo};
use super::running_lane::RunningLane;
use super::{Engine, retry};

const POLLED_EVERY: Duration = Duration::from_millis(50);

/// The polling task. Dropping it lets another begin.
pub(super) struct LockPoller {
    engine: Engine,
    has_ended: bool,
}

impl Drop for LockPoller {
    fn drop(&mut self) {
        if !self.has_ended {
            self.engine.state().lock_poller_was_dropped();
        }
    }
}

impl LockPoller {
    pub(super) fn new(engine: Engine) -> Self {
        Self {
            engine,
            has_ended: false,
        }
    }

    pub(super) async fn run(mut self) {
        loop {
            // Processes that poll the same rows do not poll them in step.
            sleep(POLLED_EVERY.mul_f64(0.8 + 0.4 * fastrand::f64())).await;
            if self.engine.state().ends_lock_poller() {
                self.has_ended = true;
                return;
            }
            self.engine.poll_rows().await;
            self.engine.give_up();
            self.engine.record(|state| state.blocked.choose_waits());
        }
    }
}

impl Engine {
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

    /// Records that of the rows `looked_at` only `locked` are still locked, and queues the commands
    /// that need none of those.
    fn unlock(&self, looked_at: &Footprint, locked: &Footprint) {
        self.record(|state| state.unlock(looked_at, locked));
    }

    /// Gives up blocked commands, and answers their callers that a row is still locked.
    fn give_up(&self) {
        let over = self.state().give_up();
        let responses = over.into_iter().filter_map(|queued| match queued.reply_to {
            ReplyTo::Caller(caller) => Some(Response::Caller(
                caller.answer,
                Answer::Decided(Err(retry::stays_locked())),
            )),
            ReplyTo::Waiter(_) | ReplyTo::Engine => None,
        });
        self.respond(responses.collect());
    }
}

/// A wait in the database's own lock queue. Dropping it lets another begin.
pub(super) struct LockWait {
    pub(super) engine: Engine,
    pub(super) wait: AwaitedLock,
}

impl LockWait {
    pub(super) async fn run(self) {
        match &self.wait {
            AwaitedLock::Semaphore(name) => self.wait_for_semaphore(name).await,
            AwaitedLock::Gap(gap) => self.wait_for_gap(gap).await,
        }
    }

    /// Sends a batch that needs `name` alone among the locked rows.
    async fn wait_for_semaphore(&self, name: &SemaphoreName) {
        let lane = self.engine.state().take_for(name.clone());
        let engine = self.engine.clone();
        let is_decided = RunningLane { engine, lane }.run().await;
        if is_decided {
            self.engine
                .record(|state| state.unlock_in_turn(name.clone()));
        }
    }

    /// Waits for `gap`, for as long as the store waits for a lock.
    async fn wait_for_gap(&self, gap: &Gap) {
        let looked_at = Footprint {
            gaps: [gap.clone()].into(),
            ..Footprint::default()
        };
        match self.engine.store.locked(&looked_at).await {
            Ok(locked) => self.engine.unlock(&looked_at, &locked),
            Err(error) => tracing::debug!(%error, "a locked gap could not be looked at"),
        }
    }
}

impl Drop for LockWait {
    fn drop(&mut self) {
        self.engine.state().blocked.end_wait(&self.wait);
    }
}
