//! What is believed of one semaphore that is waited for, and who waits for it.
//!
//! The engine sees its own commands go by in the order in which the store decides them, and each
//! batch has a look at what is waited for: so it knows how many permits are free after it, and how
//! many more will be by what is queued. Other processes may make it more, which the next look finds
//! out, or less, which the next refusal does. A wrong belief costs an ask too many or a look too
//! late, and never a permit too many: the store decides.

use std::collections::BTreeSet;

use lockhouse_core::{Place, ProcessId};
use tokio::time::Instant;

use super::line::{Registration, Seen};
use super::watch::Watched;

#[derive(Debug)]
pub(super) struct Room {
    /// How many permits are free after all that was decided, unless nothing was said of it.
    free: Option<u64>,
    /// How many those commands will give back that are queued.
    coming: u64,
    /// How many those waiters want that were called and are not answered.
    called: u64,
    capacity: Option<u32>,
    /// Those who wait and may not go yet.
    pub(super) parked: BTreeSet<Place>,
    /// Those who were called and are queued.
    pub(super) queued: BTreeSet<Place>,
    /// Waiters that ask for more than there is at all, here or on another semaphore.
    pub(super) aside: BTreeSet<Place>,
    /// All of them, and those who are in a lane.
    pub(super) waiting: usize,
    pub(super) watched: Watched,
    /// The line over all processes.
    pub(super) registration: Registration,
}

impl Room {
    pub(super) fn new(process: ProcessId, now: Instant) -> Self {
        Self {
            free: None,
            coming: 0,
            called: 0,
            capacity: None,
            parked: BTreeSet::new(),
            queued: BTreeSet::new(),
            aside: BTreeSet::new(),
            waiting: 0,
            watched: Watched::new(now),
            registration: Registration::new(process),
        }
    }

    pub(super) fn has(&self, count: u32) -> bool {
        let wanted = self.called + u64::from(count);
        self.free.is_none_or(|free| free + self.coming >= wanted)
    }

    pub(super) fn could_ever_have(&self, count: u32) -> bool {
        self.capacity.is_none_or(|capacity| count <= capacity)
    }

    /// Whether fewer are free.
    pub(super) fn is_too_small_for(&self, count: u32) -> bool {
        self.free.is_some_and(|free| free < count.into()) || !self.could_ever_have(count)
    }

    /// The first who could be granted something; or who waits for more capacity, if all do.
    pub(super) fn head(&self) -> Option<Place> {
        let first = [&self.parked, &self.queued].map(|places| places.first().copied());
        let first = first.into_iter().flatten().min();
        first.or_else(|| self.aside.first().copied())
    }

    /// How many wait that are in no lane.
    pub(super) fn standing(&self) -> usize {
        self.parked.len() + self.queued.len() + self.aside.len()
    }

    /// Whether one who waits comes before `place`.
    pub(super) fn is_behind(&self, place: Place) -> bool {
        let ahead = |places: &BTreeSet<Place>| places.first().is_some_and(|first| *first < place);
        ahead(&self.parked) || ahead(&self.queued)
    }

    pub(super) fn expect(&mut self, count: u32) {
        self.coming += u64::from(count);
    }

    pub(super) fn expect_no_more(&mut self, count: u32) {
        self.coming = self.coming.saturating_sub(count.into());
    }

    pub(super) fn free(&mut self, count: u32) {
        self.free = self.free.map(|free| free + u64::from(count));
    }

    pub(super) fn take(&mut self, count: u32, fence: u64) {
        self.free = self.free.map(|free| free.saturating_sub(count.into()));
        self.watched.knows(fence);
    }

    /// There was no room for `count`.
    pub(super) fn lacks(&mut self, count: u32) {
        let most = u64::from(count).saturating_sub(1);
        self.free = Some(self.free.map_or(most, |free| free.min(most)));
    }

    pub(super) fn call(&mut self, count: u32) {
        self.called += u64::from(count);
    }

    pub(super) fn answer(&mut self, count: u32) {
        self.called = self.called.saturating_sub(count.into());
    }

    /// Whether that changes what was believed.
    pub(super) fn resize(&mut self, capacity: u32) -> bool {
        self.capacity.replace(capacity) != Some(capacity)
    }

    /// It was seen with so many permits available.
    pub(super) fn see(&mut self, available: u32, fence: u64, when: Seen) {
        let seen = u64::from(available);
        let is_more = self.free.is_some_and(|free| free < seen);
        if is_more || when == Seen::InTurn {
            self.free = Some(seen);
        }
        self.watched.see(is_more, fence, Instant::now());
    }
}
