//! Keyed semaphores, each one of many that a template created (P11). A *key* is such a semaphore.
//!
//! A waiter lacks a key if the key has no room for it or others come first there. Such a waiter
//! stands in the lines of the keys that it lacks, and is held back in its other lines, where it
//! blocks nobody. It keeps its place, and returns to all its lines once it lacks no key.
//!
//! So only the first waiter of a key may stand in the line of the semaphore that all keys share,
//! and a thousand waiters behind it cost nothing there. The process checks again whether a waiter
//! lacks keys when it becomes the first in the line of one. Once it lacks none, the process checks
//! whenever one of its keys changes.

use lockhouse_core::{PlaceInLine, Refusal, SemaphoreName};

use super::WaitingLine;
use super::waiter::WaiterState;

impl WaitingLine {
    /// The keys that the waiter at `place` lacks. A waiter behind it that was called, since this
    /// one lacks another key, takes no room from it.
    pub(super) fn lacking_keys(&self, place: PlaceInLine) -> Vec<SemaphoreName> {
        let waiter = self.waiters.get(&place).filter(|_| self.knows_keys);
        let Some(waiter) = waiter else {
            return Vec::new();
        };
        let permits = waiter.ask.permits();
        let lacking = permits.filter(|(name, count)| {
            let line = self.lines.get(name).filter(|line| line.is_keyed);
            line.is_some_and(|line| {
                !line.has_for(place, count.value())
                    || line.parked.first().is_some_and(|first| *first < place)
                    || line.registration.waits_for_others(self.now)
            })
        });
        lacking.map(|(name, _)| name.clone()).collect()
    }

    /// Checks the waiters of a key whose line has changed. Its first waiter may no longer lack the
    /// key, and waiters that did not lack it may lack it now.
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

    /// Records whether a template created `name`.
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

    /// The keys among the semaphores that `refusal` names: those that the refused waiter lacks.
    pub(in crate::engine) fn keys_in(&self, refusal: &Refusal) -> Vec<SemaphoreName> {
        let (Refusal::Exhausted(names) | Refusal::OthersFirst(names)) = refusal else {
            return Vec::new();
        };
        let is_key = |name: &&SemaphoreName| {
            let line = self.lines.get(name);
            line.is_some_and(|line| line.is_keyed)
        };
        names.iter().filter(is_key).cloned().collect()
    }
}
