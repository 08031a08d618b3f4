//! The poller: one task that reads what other processes changed, for all waiters of this process.
//!
//! A release in this process calls the next waiters at once. Releases in other processes are found
//! by polling: the poller reads the rows of the semaphores that have waiters here. It polls often
//! at first and after a change, and seldom while nothing changes ([`schedule`](super::waiting)). A
//! notification of the store makes the next poll come at once; a lost notification costs one
//! polling interval. After a poll the poller pauses for 64 times as long as the poll took (8 times
//! if it was notified), up to half a second. So a slow store is polled less, and a hundred waiting
//! processes do not keep each other from being served.
//!
//! The poller also looks for lapsed holds, by the store's clock: when the next hold of this process
//! must have lapsed, and every 400 ms for holds of other processes. So a dead holder's permits are
//! free within a second of its expiry (P10).

use std::collections::HashSet;
use std::time::Duration;

use lockhouse_core::store::{self, Page};
use lockhouse_core::{Capacity, MAX_TEMPLATES, SemaphoreName, Template};
use tokio::time::{Instant, sleep_until, timeout};

use super::driver::Driver;
use super::waiting::{Observed, PollPlan, WaitersElsewhere};
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
struct Poller {
    driver: Driver,
    is_on: bool,
    looked: Instant,
    took: Duration,
    was_notified: bool,
}

impl Poller {
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
        if self.is_on {
            self.driver.state().has_poller = false;
        }
    }
}

impl Engine {
    /// Starts the poller if it does not run. It runs as long as a call waits.
    pub(super) fn start_poller(&self) {
        let mut state = self.driver.state();
        if state.has_poller {
            drop(state);
            self.shared.someone_new.notify_one();
            return;
        }
        state.has_poller = true;
        drop(state);
        let poller = Poller {
            driver: self.driver.clone(),
            is_on: true,
            looked: Instant::now(),
            took: Duration::ZERO,
            was_notified: false,
        };
        tokio::spawn(self.clone().poll(poller));
    }

    async fn poll(self, mut poller: Poller) {
        while let Some(plan) = self.plan(&mut poller) {
            let began = Instant::now();
            let mut missing = Vec::new();
            for names in plan.look.chunks(PIECE) {
                missing.extend(self.look_at(names).await);
                poller.rest(began);
            }
            if !missing.is_empty() {
                self.look_for_templates_of(missing).await;
            }
            for names in plan.look_for_lapsed.chunks(PIECE) {
                if let Err(error) = self.end_lapsed_soon(names).await {
                    tracing::warn!(%error, "lapsed requests could not be ended, trying again");
                }
            }
            self.look_for_newcomers().await;
            self.driver.save_due();
            self.publish_waiters();
            let process = self.driver.state().waiting.process;
            let to_save = self.driver.state().waiting.next_to_save(Instant::now());
            // By the time of the save, all waiters may have left.
            let to_publish = self.driver.state().publisher.next();
            let newcomers = self.driver.state().waiting.next_newcomers();
            let next = [plan.next, to_save, to_publish, newcomers];
            let next = next.into_iter().flatten().min();
            let next = next.unwrap_or_else(Instant::now);
            // Biased, so that a simulated run can be repeated. Any branch leads to a fresh look at
            // everything.
            tokio::select! {
                biased;
                changed = self.store.changed(&plan.on, process) => {
                    self.driver.state().waiting.look_soon(&changed);
                    poller.was_notified = true;
                }
                () = self.shared.someone_new.notified() => {}
                () = sleep_until(next) => {}
            }
        }
        self.publish_waiters();
    }

    /// Gives new waiters the places that they had at other processes.
    async fn look_for_newcomers(&self) {
        let (new, names, process) = {
            let waiting = &mut self.driver.state().waiting;
            let (new, names) = waiting.newcomers(Instant::now());
            (new, names, waiting.process)
        };
        if names.is_empty() {
            return;
        }
        let read = async {
            let mut elsewhere = WaitersElsewhere::new(process);
            for name in &names {
                elsewhere.add(name, self.store.shown(name).await?);
            }
            Ok::<_, store::Error>(elsewhere)
        };
        // Polls and entries in the lines do not wait for a slow read.
        match timeout(READ_WITHIN, read).await {
            Ok(Ok(elsewhere)) => self.driver.state().waiting.resume(new, &elsewhere),
            failed => {
                tracing::debug!(?failed, "lists of waiters could not be read, trying again");
                self.driver.state().waiting.look_again(new);
            }
        }
        self.driver.call();
    }

    /// The next poll. `None` once no call waits.
    fn plan(&self, poller: &mut Poller) -> Option<PollPlan> {
        let mut state = self.driver.state();
        if state.waiting.is_empty() {
            state.has_poller = false;
            poller.is_on = false;
            return None;
        }
        let plan = state
            .waiting
            .plan(&self.driver.grants, poller.rests(), Instant::now());
        Some(plan)
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
        let mut state = self.driver.state();
        for semaphore in &semaphores {
            state.waiting.see(semaphore, None, Observed::Unordered);
        }
        for name in &missing {
            state.waiting.miss(name, Instant::now());
        }
        drop(state);
        self.driver.call();
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
        let mut state = self.driver.state();
        for (name, capacity) in made {
            state.waiting.would_be_made(&name, capacity);
        }
        drop(state);
        self.driver.call();
    }
}
