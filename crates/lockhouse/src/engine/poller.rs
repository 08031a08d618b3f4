//! The poller: one task that reads what other processes changed, for all waiters of this process.
//!
//! A release in this process calls the next waiters at once. Releases in other processes are found
//! by polling: the poller reads the rows of the semaphores that have waiters here. It polls often
//! at first and after a change, and seldom while nothing changes ([`schedule`](super::waiting)). A
//! notification of the store makes the next poll come at once; a lost notification costs one
//! polling interval. After a poll the poller pauses for 64 times as long as the poll took, or 8 times
//! if a notification comes in the pause, up to half a second. So a slow store is polled less, and a hundred waiting
//! processes do not keep each other from being served.
//!
//! The poller also looks for lapsed holds, by the store's clock: when the next hold of this process
//! must have lapsed, and for holds of other processes every 400 ms. Processes with two or more ahead look less often. So a dead holder's permits are
//! free within a second of its expiry (P10).

use std::collections::HashSet;
use std::time::Duration;

use lockhouse_core::store::{self, Page};
use lockhouse_core::{Capacity, MAX_TEMPLATES, SemaphoreName, Template};
use tokio::time::{Instant, sleep_until, timeout};

use super::state::EngineState;
use super::waiting::{PollPlan, WaitersElsewhere};
use super::{Engine, retry};

/// After a poll the poller pauses for this multiple of the poll's duration, up to a maximum. The second applies if a
/// notification came after the poll.
const RESTS: u32 = 64;
const RESTS_IF_NOTIFIED: u32 = 8;
const LONGEST_REST: Duration = Duration::from_millis(500);

/// How many semaphores one query reads.
const PIECE: usize = 500;

/// How long the lists of other processes may be read.
const READ_WITHIN: Duration = Duration::from_millis(300);

/// The polling task, and when it may poll next. Dropping it lets another begin.
pub(super) struct Poller {
    engine: Engine,
    has_ended: bool,
    looked: Instant,
    took: Duration,
    was_notified: bool,
}

impl Poller {
    pub(super) fn new(engine: Engine) -> Self {
        Self {
            engine,
            has_ended: false,
            looked: Instant::now(),
            took: Duration::ZERO,
            was_notified: false,
        }
    }

    pub(super) async fn run(mut self) {
        while let Some(plan) = self.plan() {
            let began = Instant::now();
            let mut missing = Vec::new();
            for names in plan.look.chunks(PIECE) {
                missing.extend(self.engine.look_at(names).await);
                self.rest(began);
            }
            let engine = &self.engine;
            if !missing.is_empty() {
                engine.look_for_templates_of(missing).await;
            }
            for names in plan.look_for_lapsed.chunks(PIECE) {
                if let Err(error) = engine.end_lapsed_soon(names).await {
                    tracing::warn!(%error, "lapsed requests could not be ended, trying again");
                }
            }
            engine.look_for_newcomers().await;
            engine.record(|state| {
                state.save_due();
                state.publish_waiters();
            });
            let (process, next) = {
                let state = engine.state();
                (state.waiting.process, state.next_of_poller())
            };
            // Without waiters there is nothing to wait for.
            let next = plan.next.into_iter().chain(next).min();
            let next = next.unwrap_or_else(Instant::now);
            // Biased, so that a simulated run can be repeated. Any branch leads to a fresh look at
            // everything.
            tokio::select! {
                biased;
                changed = engine.store.changed(&plan.on, process) => {
                    engine.state().waiting.look_soon(&changed);
                    self.was_notified = true;
                }
                () = engine.shared.poller.notified() => {}
                () = sleep_until(next) => {}
            }
        }
        self.engine.record(EngineState::publish_waiters);
    }

    /// The next poll. `None` ends this poller, and another may begin.
    fn plan(&mut self) -> Option<PollPlan> {
        let engine = &self.engine;
        let plan = engine.state().plan(&engine.shared.grants, self.rests());
        self.has_ended = plan.is_none();
        plan
    }

    /// Sets the pause after a poll that `began` then.
    fn rest(&mut self, began: Instant) {
        self.looked = Instant::now();
        self.took = self.looked - began;
        self.was_notified = false;
    }

    /// When the pause ends.
    fn rests(&self) -> Instant {
        let times = if self.was_notified {
            RESTS_IF_NOTIFIED
        } else {
            RESTS
        };
        self.looked + (self.took * times).min(LONGEST_REST)
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        if !self.has_ended {
            self.engine.state().poller_was_dropped();
        }
    }
}

impl Engine {
    /// Gives new waiters the places that they had at other processes.
    async fn look_for_newcomers(&self) {
        let (new, names, process) = {
            let waiting = &mut self.state().waiting;
            let (new, names) = waiting.newcomers();
            (new, names, waiting.process)
        };
        if names.is_empty() {
            return;
        }
        let read = async {
            let mut elsewhere = WaitersElsewhere::new(process);
            for name in &names {
                let shown = self.store.shown(name).await?;
                elsewhere.add(name, shown, Instant::now());
            }
            Ok::<_, store::Error>(elsewhere)
        };
        // Polls and entries in the lines do not wait for a slow read.
        match timeout(READ_WITHIN, read).await {
            Ok(Ok(elsewhere)) => self.record(|state| state.resume(new, &elsewhere)),
            failed => {
                tracing::debug!(?failed, "lists of waiters could not be read, trying again");
                self.record(|state| state.waiting.look_again(new));
            }
        }
    }

    /// Reads the semaphores `names`. Returns those that have no row.
    async fn look_at(&self, names: &[SemaphoreName]) -> Vec<SemaphoreName> {
        let seen = self
            .retry
            .read(retry::deadline(), || self.store.named(names))
            .await;
        let semaphores = match seen {
            Ok(semaphores) => semaphores,
            Err(error) => {
                tracing::warn!(%error, "the semaphores with waiters could not be read, trying again");
                return Vec::new();
            }
        };
        let there: HashSet<_> = semaphores.iter().map(|semaphore| &semaphore.name).collect();
        let missing = names.iter().filter(|name| !there.contains(name));
        let missing: Vec<_> = missing.cloned().collect();
        self.record(|state| state.see_polled(&semaphores, &missing));
        missing
    }

    /// Checks that each of the `missing` semaphores has a template, which may have changed. Waiters
    /// for one without a template learn that there is no such semaphore.
    async fn look_for_templates_of(&self, missing: Vec<SemaphoreName>) {
        let all = Page {
            after: None,
            limit: MAX_TEMPLATES as u32,
        };
        let templates = match self.templates(&all).await {
            Ok(templates) => templates,
            Err(error) => {
                tracing::warn!(%error, "the templates could not be read, trying again");
                return;
            }
        };
        let made = missing.into_iter().map(|name| {
            let template = Template::of(&name, &templates);
            let capacity = template.map(|template| template.capacity);
            (name, capacity)
        });
        let made: Vec<(SemaphoreName, Option<Capacity>)> = made.collect();
        self.record(|state| state.would_be_made(&made));
    }
}
