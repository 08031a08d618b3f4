//! Keyed semaphores, one of many that a template made (P11).
//!
//! A waiter that lacks a key, as there is no room for it or others come first, stands in the lines of the keys that it lacks
//! and in nobody's way elsewhere: in its other lines it is held back. It keeps its place, and is back in all its lines once
//! it lacks no key any more.
//!
//! So only the first waiter of a key may stand in the line of what all keys share, and a thousand behind it cost
//! nothing there. Whether a waiter lacks keys is looked at again when it is the first in the line of one, and, once it lacks
//! none, whenever one of its keys changes.

use lockhouse_core::{Place, SemaphoreName};

use super::WaitingLine;
use super::waiter::WaiterState;

impl WaitingLine {
    /// The keyed semaphores of a waiter that have no room for it, or others in front of it. One behind it that was called,
    /// as this one lacks another key, takes nothing from it.
    pub(super) fn lacking_keys(&self, place: Place) -> Vec<SemaphoreName> {
        let waiter = self.waiters.get(&place).filter(|_| self.knows_keys);
        let Some(waiter) = waiter else {
            return Vec::new();
        };
        let permits = waiter.ask.permits();
        let lacking = permits.filter(|(name, count)| {
            let line = self.lines.get(*name).filter(|line| line.is_keyed);
            line.is_some_and(|line| {
                !line.has_for(place, count.value())
                    || line.parked.first().is_some_and(|first| *first < place)
                    || line.registration.waits_for_others()
            })
        });
        lacking.map(|(name, _)| name.clone()).collect()
    }

    /// The line of a key has changed: its first waiter may lack it no more, and those who did not may now.
    pub(super) fn reconsider(&mut self, name: &SemaphoreName) {
        let Some(line) = self.lines.get(name).filter(|line| line.is_keyed) else {
            return;
        };
        let first = line.parked.first();
        let places: Vec<_> = line.fronts.iter().chain(first).copied().collect();
        for place in places {
            let lacking = self.lacking_keys(place);
            let waiter = self.waiters.get(&place);
            let is_parked = |state: WaiterState| state == WaiterState::Parked;
            if waiter.is_some_and(|it| is_parked(it.state) && it.lacking_keys != lacking) {
                self.set(place, WaiterState::Parked);
            }
        }
    }

    /// Whether a template made `name` was not known, or has changed.
    pub(super) fn note_keyed(&mut self, name: &SemaphoreName, is_keyed: bool) {
        let Some(line) = self.lines.get_mut(name) else {
            return;
        };
        if line.is_keyed == is_keyed {
            return;
        }
        line.is_keyed = is_keyed;
        self.knows_keys |= is_keyed;
        line.fronts.clear();
        for place in line.parked.clone() {
            self.set(place, WaiterState::Parked);
        }
    }
}
