//! Who waits for room, in this process.
//!
//! Waiters stand in line on each semaphore that they need, and each has a bell. Permits that come
//! back here ring the first in line, as many as the permits are; whoever leaves the line, served or
//! not, rings the one who is now first. So a crowd is served one after the other, without all of
//! them asking whenever something comes back.
//!
//! Permits that come back through another process ring nothing here. They are found by looking
//! again: whoever is first in a line does so after a while that grows from 25 ms to a second, and
//! the others every few seconds, in case the first can't be served for want of something else.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockhouse_core::SemaphoreName;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

const FIRST_LOOK: Duration = Duration::from_millis(25);
const LATER_LOOKS: Duration = Duration::from_secs(1);
const LOOKS_FROM_BEHIND: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(super) struct Waiting {
    lines: Arc<Mutex<Lines>>,
}

/// A waiter's place in the order in which they came.
type Ticket = u64;

#[derive(Debug, Default)]
struct Lines {
    next: Ticket,
    by_semaphore: HashMap<SemaphoreName, BTreeMap<Ticket, Arc<Notify>>>,
}

impl Waiting {
    /// A place at the end of the lines on `semaphores`, until it is dropped.
    pub(super) fn park<'a>(&self, semaphores: impl Iterator<Item = &'a SemaphoreName>) -> Place {
        let bell = Arc::new(Notify::new());
        let semaphores: Vec<_> = semaphores.cloned().collect();
        let mut lines = lock(&self.lines);
        let ticket = lines.next;
        lines.next += 1;
        for name in &semaphores {
            let line = lines.by_semaphore.entry(name.clone()).or_default();
            line.insert(ticket, Arc::clone(&bell));
        }
        drop(lines);
        Place {
            lines: Arc::clone(&self.lines),
            bell,
            ticket,
            semaphores,
            look: FIRST_LOOK,
        }
    }

    /// Wakes the first in line on `semaphore`, `permits` of them: there is room for no more.
    pub(super) fn ring(&self, semaphore: &SemaphoreName, permits: u32) {
        lock(&self.lines).ring(semaphore, permits as usize);
    }

    /// How many wait for `semaphore`.
    pub(super) fn on(&self, semaphore: &SemaphoreName) -> u32 {
        let lines = lock(&self.lines);
        let waiting = lines.by_semaphore.get(semaphore).map_or(0, BTreeMap::len);
        u32::try_from(waiting).unwrap_or(u32::MAX)
    }
}

impl Lines {
    fn ring(&self, semaphore: &SemaphoreName, most: usize) {
        let line = self.by_semaphore.get(semaphore).into_iter();
        let first = line.flat_map(BTreeMap::values).take(most);
        first.for_each(|bell| bell.notify_one());
    }

    fn is_first(&self, ticket: Ticket, semaphore: &SemaphoreName) -> bool {
        let line = self.by_semaphore.get(semaphore);
        line.and_then(BTreeMap::first_key_value)
            .map(|(first, _)| *first)
            == Some(ticket)
    }
}

/// One waiter's place.
#[derive(Debug)]
pub(super) struct Place {
    lines: Arc<Mutex<Lines>>,
    bell: Arc<Notify>,
    ticket: Ticket,
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
        let look = if self.is_first() {
            self.look
        } else {
            LOOKS_FROM_BEHIND
        };
        // A quarter of jitter, so that processes don't look in step.
        let look_at = now + look.mul_f64(0.75 + 0.5 * fastrand::f64());
        let wake_at = until.map_or(look_at, |until| until.min(look_at));
        self.look = match timeout_at(wake_at, self.bell.notified()).await {
            Ok(()) => FIRST_LOOK,
            Err(_) => self.look.mul_f64(1.5).min(LATER_LOOKS),
        };
        true
    }

    /// Whether it is first in any of its lines.
    fn is_first(&self) -> bool {
        let lines = lock(&self.lines);
        let mut semaphores = self.semaphores.iter();
        semaphores.any(|name| lines.is_first(self.ticket, name))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut lines = lock(&self.lines);
        for name in &self.semaphores {
            let was_first = lines.is_first(self.ticket, name);
            let Some(line) = lines.by_semaphore.get_mut(name) else {
                continue;
            };
            line.remove(&self.ticket);
            if line.is_empty() {
                lines.by_semaphore.remove(name);
            } else if was_first {
                lines.ring(name, 1);
            }
        }
    }
}

fn lock(lines: &Mutex<Lines>) -> MutexGuard<'_, Lines> {
    lines.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn name() -> SemaphoreName {
        SemaphoreName::parse("s").unwrap()
    }

    fn park(waiting: &Waiting) -> Place {
        waiting.park([&name()].into_iter())
    }

    fn has_rung(place: &Place) -> bool {
        place.bell.notified().now_or_never().is_some()
    }

    #[test]
    fn as_many_are_woken_as_there_are_permits() {
        let waiting = Waiting::default();
        let places: Vec<_> = (0..4).map(|_| park(&waiting)).collect();
        waiting.ring(&name(), 2);
        let rung: Vec<_> = places.iter().map(has_rung).collect();
        assert_eq!(rung, [true, true, false, false]);
    }

    #[test]
    fn whoever_leaves_the_head_wakes_the_next() {
        let waiting = Waiting::default();
        let (first, second, third) = (park(&waiting), park(&waiting), park(&waiting));
        drop(first);
        assert!(has_rung(&second));
        assert!(!has_rung(&third));
        assert_eq!(waiting.on(&name()), 2);
    }

    #[test]
    fn whoever_was_rung_out_of_turn_and_leaves_wakes_nobody_needlessly() {
        let waiting = Waiting::default();
        let (first, second) = (park(&waiting), park(&waiting));
        drop(second);
        assert!(!has_rung(&first));
        drop(first);
        assert_eq!(waiting.on(&name()), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_bell_that_rang_before_is_heard() {
        let waiting = Waiting::default();
        let mut place = park(&waiting);
        waiting.ring(&name(), 1);
        let began = Instant::now();
        assert!(place.rung_until(None).await);
        assert_eq!(began.elapsed(), Duration::ZERO);
        assert!(
            place.rung_until(None).await,
            "and without one it looks again by itself"
        );
        assert!(began.elapsed() >= FIRST_LOOK / 2);
    }
}
