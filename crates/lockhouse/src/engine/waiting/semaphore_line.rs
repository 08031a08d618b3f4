//! The line of one semaphore in this process, and an estimate of its free permits.
//!
//! The engine sees its own commands in the order in which the store decides them, and each batch
//! reads the semaphores that have waiters. So the estimate of free permits is right after each
//! batch, and includes what queued releases will free. Other processes may raise the number, which
//! the next poll finds out, or lower it, which the next refusal does. A wrong estimate costs an
//! extra ask or a late poll, but never grants a permit too many: the store decides.

use std::collections::{BTreeMap, BTreeSet};

use lockhouse_core::{PlaceInLine, ProcessId};
use tokio::time::Instant;

use super::registration::{Observed, Registration};
use super::schedule::Schedule;

#[derive(Debug)]
pub(in crate::engine) struct SemaphoreLine {
    /// How many permits are free after all decided commands, if known.
    free: Option<u64>,
    /// How many permits the queued commands will free.
    coming: u64,
    /// How many permits the called waiters ask for that have no answer yet: the sum, and the count of each.
    called: u64,
    called_each: BTreeMap<PlaceInLine, u32>,
    capacity: Option<u32>,
    /// Waiters that are not called.
    pub(in crate::engine) parked: BTreeSet<PlaceInLine>,
    /// Waiters that lack another [key](super::keys), and block nobody here meanwhile.
    pub(in crate::engine) held_back: BTreeSet<PlaceInLine>,
    /// Whether a template created the semaphore.
    pub(super) is_keyed: bool,
    /// On a keyed semaphore: the parked waiters that lack no key.
    pub(super) fronts: BTreeSet<PlaceInLine>,
    /// Waiters that were called and are queued.
    pub(in crate::engine) queued: BTreeSet<PlaceInLine>,
    /// Waiters that ask for more than the capacity, here or on another semaphore.
    pub(in crate::engine) unsatisfiable: BTreeSet<PlaceInLine>,
    /// How many waiters there are, including those in a lane.
    pub(in crate::engine) waiting: usize,
    pub(in crate::engine) schedule: Schedule,
    /// This process's part of the line over all processes.
    pub(in crate::engine) registration: Registration,
}

impl SemaphoreLine {
    pub(in crate::engine) fn new(process: ProcessId, now: Instant) -> Self {
        Self {
            free: None,
            coming: 0,
            called: 0,
            called_each: BTreeMap::new(),
            capacity: None,
            parked: BTreeSet::new(),
            held_back: BTreeSet::new(),
            is_keyed: false,
            fronts: BTreeSet::new(),
            queued: BTreeSet::new(),
            unsatisfiable: BTreeSet::new(),
            waiting: 0,
            schedule: Schedule::new(now),
            registration: Registration::new(process),
        }
    }

    pub(in crate::engine) fn has(&self, count: u32) -> bool {
        let wanted = self.called + u64::from(count);
        self.free.is_none_or(|free| free + self.coming >= wanted)
    }

    /// Whether `count` permits are free for `place`, beside those for which waiters before it were
    /// called.
    pub(in crate::engine) fn has_for(&self, place: PlaceInLine, count: u32) -> bool {
        let before = self.called_each.range(..place);
        let before: u64 = before.map(|(_, count)| u64::from(*count)).sum();
        let wanted = before + u64::from(count);
        self.free.is_none_or(|free| free + self.coming >= wanted)
    }

    pub(in crate::engine) fn could_ever_have(&self, count: u32) -> bool {
        self.capacity.is_none_or(|capacity| count <= capacity)
    }

    /// Whether fewer than `count` are free.
    pub(in crate::engine) fn is_too_small_for(&self, count: u32) -> bool {
        self.free.is_some_and(|free| free < count.into()) || !self.could_ever_have(count)
    }

    /// The first waiter that could be granted, or else the first unsatisfiable one.
    pub(in crate::engine) fn head(&self) -> Option<PlaceInLine> {
        let first = [&self.parked, &self.queued].map(|places| places.first().copied());
        let first = first.into_iter().flatten().min();
        first.or_else(|| self.unsatisfiable.first().copied())
    }

    /// How many waiters are in no lane.
    pub(in crate::engine) fn standing(&self) -> usize {
        self.parked.len() + self.held_back.len() + self.queued.len() + self.unsatisfiable.len()
    }

    /// Whether a waiter comes before `place`.
    pub(in crate::engine) fn is_behind(&self, place: PlaceInLine) -> bool {
        let ahead =
            |places: &BTreeSet<PlaceInLine>| places.first().is_some_and(|first| *first < place);
        ahead(&self.parked) || ahead(&self.queued)
    }

    pub(in crate::engine) fn expect(&mut self, count: u32) {
        self.coming += u64::from(count);
    }

    pub(in crate::engine) fn expect_no_more(&mut self, count: u32) {
        self.coming = self.coming.saturating_sub(count.into());
    }

    pub(in crate::engine) fn free(&mut self, count: u32) {
        self.free = self.free.map(|free| free + u64::from(count));
    }

    pub(in crate::engine) fn take(&mut self, count: u32, fence: u64) {
        self.free = self.free.map(|free| free.saturating_sub(count.into()));
        self.schedule.knows(fence);
    }

    /// Records that there was no room for `count`.
    pub(in crate::engine) fn lacks(&mut self, count: u32) {
        let most = u64::from(count).saturating_sub(1);
        self.free = Some(self.free.map_or(most, |free| free.min(most)));
    }

    pub(in crate::engine) fn call(&mut self, place: PlaceInLine, count: u32) {
        self.called += u64::from(count);
        self.called_each.insert(place, count);
    }

    pub(in crate::engine) fn answer(&mut self, place: PlaceInLine) {
        let count = self.called_each.remove(&place).unwrap_or_default();
        self.called = self.called.saturating_sub(count.into());
    }

    /// Records the capacity. Returns whether it is new.
    pub(in crate::engine) fn resize(&mut self, capacity: u32) -> bool {
        self.capacity.replace(capacity) != Some(capacity)
    }

    /// Records that the semaphore has no row, and the capacity with which its template would create
    /// it. Returns whether its waiters may have room now that they had not.
    pub(in crate::engine) fn would_be_made(&mut self, capacity: u32) -> bool {
        let seen = u64::from(capacity);
        let has_more = self.free.is_some_and(|free| free < seen);
        if has_more {
            self.free = Some(seen);
        }
        let had_others_first = self.registration.others_first().is_some();
        self.registration.has_new_head();
        has_more || had_others_first || self.capacity != Some(capacity)
    }

    /// Records a reading with `available` permits.
    pub(in crate::engine) fn see(
        &mut self,
        available: u32,
        fence: u64,
        when: Observed,
        now: Instant,
    ) {
        let seen = u64::from(available);
        let is_more = self.free.is_some_and(|free| free < seen);
        if is_more || when == Observed::InOrder {
            self.free = Some(seen);
        }
        self.schedule.see(is_more, fence, now);
    }
}
