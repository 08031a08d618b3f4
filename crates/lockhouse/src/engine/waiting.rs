//! Who waits for room, in this process.
//!
//! A waiter has a bell under the name of each semaphore that it needs. Permits that come back here
//! ring it at once; those that come back through another process are found by trying again after
//! a while, which grows from 25 ms to a second.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockhouse_core::SemaphoreName;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

const FIRST_LOOK: Duration = Duration::from_millis(25);
const LATER_LOOKS: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct Waiting {
    bells: Arc<Mutex<Bells>>,
}

#[derive(Debug, Default)]
struct Bells {
    next_ticket: u64,
    by_semaphore: HashMap<SemaphoreName, BTreeMap<u64, Arc<Notify>>>,
}

impl Waiting {
    /// A place among those who wait for `semaphores`, until it is dropped.
    pub(super) fn park<'a>(&self, semaphores: impl Iterator<Item = &'a SemaphoreName>) -> Place {
        let bell = Arc::new(Notify::new());
        let mut bells = lock(&self.bells);
        let ticket = bells.next_ticket;
        bells.next_ticket += 1;
        let semaphores: Vec<_> = semaphores.cloned().collect();
        for name in &semaphores {
            let waiters = bells.by_semaphore.entry(name.clone()).or_default();
            waiters.insert(ticket, Arc::clone(&bell));
        }
        drop(bells);
        Place {
            bells: Arc::clone(&self.bells),
            bell,
            ticket,
            semaphores,
            look: FIRST_LOOK,
        }
    }

    /// Wakes those who wait for any of `semaphores`.
    pub(super) fn ring<'a>(&self, semaphores: impl IntoIterator<Item = &'a SemaphoreName>) {
        let bells = lock(&self.bells);
        for name in semaphores {
            let waiters = bells
                .by_semaphore
                .get(name)
                .into_iter()
                .flat_map(BTreeMap::values);
            waiters.for_each(|bell| bell.notify_one());
        }
    }

    /// How many wait for `semaphore`.
    pub(super) fn on(&self, semaphore: &SemaphoreName) -> u32 {
        let waiting = lock(&self.bells)
            .by_semaphore
            .get(semaphore)
            .map_or(0, BTreeMap::len);
        u32::try_from(waiting).unwrap_or(u32::MAX)
    }
}

/// One waiter's place.
#[derive(Debug)]
pub(super) struct Place {
    bells: Arc<Mutex<Bells>>,
    bell: Arc<Notify>,
    ticket: u64,
    semaphores: Vec<SemaphoreName>,
    look: Duration,
}

impl Place {
    /// Waits for the bell, or for the time to look again; false once `until` has passed.
    ///
    /// A bell that rang since the last call counts, so none is lost.
    pub(super) async fn rung_until(&mut self, until: Option<Instant>) -> bool {
        let now = Instant::now();
        if until.is_some_and(|until| until <= now) {
            return false;
        }
        // A quarter of jitter, so that processes don't look in step.
        let look_at = now + self.look.mul_f64(0.75 + 0.5 * fastrand::f64());
        let wake_at = until.map_or(look_at, |until| until.min(look_at));
        self.look = match timeout_at(wake_at, self.bell.notified()).await {
            Ok(()) => FIRST_LOOK,
            Err(_) => (self.look.mul_f64(1.5)).min(LATER_LOOKS),
        };
        true
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut bells = lock(&self.bells);
        for name in &self.semaphores {
            let Some(waiters) = bells.by_semaphore.get_mut(name) else {
                continue;
            };
            waiters.remove(&self.ticket);
            if waiters.is_empty() {
                bells.by_semaphore.remove(name);
            }
        }
    }
}

fn lock(bells: &Mutex<Bells>) -> MutexGuard<'_, Bells> {
    bells.lock().unwrap_or_else(PoisonError::into_inner)
}
