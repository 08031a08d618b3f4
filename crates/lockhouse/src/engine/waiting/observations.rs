//! The waiting line learns about its semaphores from these events: grants, releases, refusals, new
//! capacities, and rows that were read.

use std::collections::BTreeSet;

use lockhouse_core::{
    Ask, Capacity, Count, ExternalId, Grant, LineTime, Refusal, SemaphoreName, SemaphoreRow,
};

use super::registration::Observed;
use super::semaphore_line::SemaphoreLine;
use super::waiter::WaiterState;
use super::{WaitingLine, registrations};

impl WaitingLine {
    /// Records that a queued command will free `permits`.
    pub(in crate::engine) fn expect(&mut self, permits: &[(SemaphoreName, Count)]) {
        for (name, count) in permits {
            self.on_line(name, |line| line.expect(count.value()));
        }
    }

    /// Records that a command that was [expected](Self::expect) to free `permits` was decided, or will not be.
    pub(in crate::engine) fn expect_no_more(&mut self, permits: &[(SemaphoreName, Count)]) {
        for (name, count) in permits {
            self.on_line(name, |line| line.expect_no_more(count.value()));
        }
    }

    pub(in crate::engine) fn free(&mut self, name: &SemaphoreName, count: Count) {
        self.on_line(name, |line| line.free(count.value()));
    }

    pub(in crate::engine) fn grant(&mut self, external_id: &ExternalId, permits: &[Grant]) {
        for permit in permits {
            self.on_line(&permit.semaphore, |line| {
                line.take(permit.count.value(), permit.fence)
            });
        }
        // Other calls with the same ask and id get the same grant.
        let same_id = self.by_id.get(external_id);
        self.call_anyway.extend(same_id.into_iter().flatten());
    }

    pub(in crate::engine) fn refuse(&mut self, ask: &Ask, refusal: &Refusal) {
        match refusal {
            Refusal::Exhausted(names) => {
                let lacked = ask.permits().filter(|(name, _)| names.contains(name));
                for (name, count) in lacked {
                    self.on_line(name, |line| line.lacks(count.value()));
                }
            }
            Refusal::Closed(names) => {
                for name in names {
                    self.resize(name, Capacity::CLOSED);
                }
            }
            Refusal::ExceedsCapacity {
                semaphore,
                capacity,
                ..
            } => {
                self.resize(semaphore, *capacity);
            }
            _ => {}
        }
    }

    /// Records a semaphore's row as it was read; `at` is the time of its line, if known.
    pub(in crate::engine) fn see(
        &mut self,
        semaphore: &SemaphoreRow,
        at: Option<LineTime>,
        when: Observed,
    ) {
        let (available, fence) = (semaphore.available(), semaphore.fence);
        let (name, now) = (&semaphore.name, self.now);
        if when == Observed::Unordered || !may_be_missing(semaphore) {
            self.lines.find(name);
        }
        self.on_line(name, |line| line.see(available, fence, when, now));
        self.resize(name, semaphore.capacity);
        self.note_keyed(name, semaphore.is_keyed());
        let is_there = semaphore.line.entry(self.process).is_some();
        match (self.lines.get_mut(name), when) {
            (Some(line), _) => {
                let head = registrations::head(&self.waiters, line, now);
                line.registration.see(semaphore, at, when, head, now);
            }
            (None, Observed::InOrder) if is_there => self.deregistrations.add(name, now),
            (None, Observed::InOrder) => {
                self.deregistrations.forget(name);
            }
            (None, Observed::Unordered) => {}
        }
    }

    /// Calls all waiters of a semaphore that no longer exists, so that they learn of it.
    pub(in crate::engine) fn delete(&mut self, name: &SemaphoreName) {
        if let Some(line) = self.lines.get(name) {
            self.call_anyway.extend(&line.parked);
            self.call_anyway.extend(&line.held_back);
            self.call_anyway.extend(&line.unsatisfiable);
        }
    }

    /// Records that a poll did not find the semaphore: it was deleted, or a template has yet to
    /// create it.
    pub(in crate::engine) fn miss(&mut self, name: &SemaphoreName) {
        self.lines.miss(name, self.now);
    }

    /// Records the capacity with which a template would create the semaphore, which was missing. The
    /// waiters are called if it has room for them that was not there before. If there is no template,
    /// they are all called, so that they learn of it.
    pub(in crate::engine) fn would_be_made(
        &mut self,
        name: &SemaphoreName,
        capacity: Option<Capacity>,
    ) {
        // A batch may have created it meanwhile.
        if !self.lines.is_missing(name) {
            return;
        }
        let Some(capacity) = capacity else {
            self.delete(name);
            return;
        };
        let line = self.lines.get_mut(name);
        if line.is_some_and(|line| line.would_be_made(capacity.value())) {
            self.look_at.insert(name.clone());
            self.resize(name, capacity);
        }
    }

    /// Whether the semaphore had no row when it was last read.
    pub(in crate::engine) fn is_missing(&self, name: &SemaphoreName) -> bool {
        self.lines.is_missing(name)
    }

    /// Records a capacity. Unsatisfiable waiters that it can satisfy return to their places.
    fn resize(&mut self, name: &SemaphoreName, capacity: Capacity) {
        let mut unsatisfiable = BTreeSet::new();
        self.on_line(name, |line| {
            // There may be thousands of unsatisfiable waiters, and every poll calls this.
            if line.resize(capacity.value()) {
                unsatisfiable.clone_from(&line.unsatisfiable);
            }
        });
        for place in unsatisfiable {
            if self.in_all_lines(place, SemaphoreLine::could_ever_have) {
                self.set(place, WaiterState::Parked);
            }
        }
    }

    fn on_line(&mut self, name: &SemaphoreName, change: impl FnOnce(&mut SemaphoreLine)) {
        if let Some(line) = self.lines.get_mut(name) {
            change(line);
            self.look_at.insert(name.clone());
        }
    }
}

/// Whether the semaphore may have no row. A batch that finds none reads it as its template would
/// create it.
fn may_be_missing(semaphore: &SemaphoreRow) -> bool {
    semaphore.is_keyed() && semaphore.in_use == 0 && semaphore.line.is_empty()
}
