//! The poller: one task that reads what other processes changed, for all waiters of this process.
//!
//! Permits that come back through this process call their next waiters at once. Those that come back through another
//! process are found by reading the rows of just the semaphores that are waited for: often at first and after a change,
//! seldom while nothing changes ([`schedule`](super::waiting)). A store with notifications makes the next poll come at once;
//! a lost notification costs one polling interval. After a poll the poller rests for 64 times as long as that took, 8 times
//! if it was notified, up to half a second: the slower the store, the less it is asked, so that a hundred waiting
//! processes don't keep each other from being served.
//!
//! Lapsed holds are looked for as well, by the store's clock: when the next one that was granted here must have lapsed, and
//! every 400 ms for those that others granted. So a dead holder's permits are there within a second of its time (P10).

use std::time::Duration;

use lockhouse_core::SemaphoreName;
use tokio::time::{Instant, sleep_until};

use super::driver::Driver;
use super::waiting::{Observed, PollPlan};
use super::{Engine, retry};

/// How many times as long as a look took nobody looks again, and how long at most.
const RESTS: u32 = 64;
const RESTS_WHERE_IT_RINGS: u32 = 8;
const LONGEST_REST: Duration = Duration::from_millis(500);

/// How many semaphores are read at once.
const PIECE: usize = 500;

/// The one who looks. However that ends, another may begin.
struct Poller {
    driver: Driver,
    is_on: bool,
    looked: Instant,
    took: Duration,
    has_rung: bool,
}

impl Poller {
    /// It looked, since it `began`.
    fn rest(&mut self, began: Instant) {
        self.looked = Instant::now();
        self.took = self.looked - began;
        self.has_rung = false;
    }

    /// Until when it rests.
    fn rests(&self) -> Instant {
        let times = if self.has_rung {
            RESTS_WHERE_IT_RINGS
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
    /// Sees to it that somebody looks as long as anybody waits.
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
            has_rung: false,
        };
        tokio::spawn(self.clone().poll(poller));
    }

    async fn poll(self, mut poller: Poller) {
        while let Some(plan) = self.plan(&mut poller) {
            let began = Instant::now();
            for names in plan.look.chunks(PIECE) {
                self.look_at(names).await;
                poller.rest(began);
            }
            for names in plan.look_for_lapsed.chunks(PIECE) {
                if let Err(error) = self.end_lapsed_soon(names).await {
                    tracing::warn!(%error, "what has lapsed could not be ended, trying again");
                }
            }
            self.driver.save_due();
            self.publish_waiters();
            let process = self.driver.state().waiting.process;
            let to_save = self.driver.state().waiting.next_to_save(Instant::now());
            // What there is to save may be over by then, with all who waited.
            let to_publish = self.driver.state().publisher.next();
            let next = plan.next.into_iter().chain(to_save).chain(to_publish).min();
            let next = next.unwrap_or_else(Instant::now);
            // In one order, so that a run can be repeated; whichever it is, all is looked at anew.
            tokio::select! {
                biased;
                changed = self.store.changed(&plan.on, process) => {
                    self.driver.state().waiting.look_soon(&changed);
                    poller.has_rung = true;
                }
                () = self.shared.someone_new.notified() => {}
                () = sleep_until(next) => {}
            }
        }
        self.publish_waiters();
    }

    /// None once nobody waits.
    fn plan(&self, poller: &mut Poller) -> Option<PollPlan> {
        let mut state = self.driver.state();
        if state.waiting.is_empty() {
            state.has_poller = false;
            poller.is_on = false;
            return None;
        }
        let plan = state
            .waiting
            .plan(&self.shared.grants, poller.rests(), Instant::now());
        Some(plan)
    }

    async fn look_at(&self, names: &[SemaphoreName]) {
        let seen = retry::read(retry::deadline(), || self.store.named(names)).await;
        let semaphores = match seen {
            Ok(semaphores) => semaphores,
            Err(error) => {
                tracing::warn!(%error, "what is waited for could not be read, trying again");
                return;
            }
        };
        let mut state = self.driver.state();
        for semaphore in &semaphores {
            state.waiting.see(semaphore, None, Observed::Unordered);
        }
        let is_there = |name: &&SemaphoreName| semaphores.iter().any(|s| s.name == **name);
        for name in names.iter().filter(|name| !is_there(name)) {
            state.waiting.miss(name, Instant::now());
        }
        drop(state);
        self.driver.call();
    }
}
