//! What happens to the rooms, as far as somebody waits for them.

use std::collections::BTreeSet;

use lockhouse_core::{
    Ask, Capacity, Count, ExternalId, Grant, LineTime, Refusal, Semaphore, SemaphoreName,
};
use tokio::time::Instant;

use super::super::line::Seen;
use super::super::room::Room;
use super::{Stands, Waiting, posts};

impl Waiting {
    /// A command is queued that will give `permits` back.
    pub(in crate::engine) fn expect(&mut self, permits: &[(SemaphoreName, Count)]) {
        for (name, count) in permits {
            self.in_room(name, |room| room.expect(count.value()));
        }
    }

    /// That command was decided, or is not going to be.
    pub(in crate::engine) fn expect_no_more(&mut self, permits: &[(SemaphoreName, Count)]) {
        for (name, count) in permits {
            self.in_room(name, |room| room.expect_no_more(count.value()));
        }
    }

    pub(in crate::engine) fn free(&mut self, name: &SemaphoreName, count: Count) {
        self.in_room(name, |room| room.free(count.value()));
    }

    pub(in crate::engine) fn grant(&mut self, external_id: &ExternalId, permits: &[Grant]) {
        for permit in permits {
            self.in_room(&permit.semaphore, |room| {
                room.take(permit.count.value(), permit.fence)
            });
        }
        // Others with the same ask under this id are answered with the same grant.
        let same_id = self.by_id.get(external_id);
        self.call_anyway.extend(same_id.into_iter().flatten());
    }

    pub(in crate::engine) fn refuse(&mut self, ask: &Ask, refusal: &Refusal) {
        match refusal {
            Refusal::Exhausted(names) => {
                let lacked = ask.permits().filter(|(name, _)| names.contains(name));
                for (name, count) in lacked {
                    self.in_room(name, |room| room.lacks(count.value()));
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

    /// The semaphore was seen; `at` a time of its line, if that is known.
    pub(in crate::engine) fn see(
        &mut self,
        semaphore: &Semaphore,
        at: Option<LineTime>,
        when: Seen,
    ) {
        let (available, fence) = (semaphore.available(), semaphore.fence);
        let name = &semaphore.name;
        self.in_room(name, |room| room.see(available, fence, when));
        self.resize(name, semaphore.capacity);
        let is_there = semaphore.line.entry(self.process).is_some();
        match (self.rooms.get_mut(name), when) {
            (Some(room), _) => {
                let head = posts::head(&self.waiters, room);
                room.registration
                    .see(semaphore, at, when, head, Instant::now());
            }
            (None, Seen::InTurn) if is_there => self.farewells.add(name),
            (None, Seen::InTurn) => self.farewells.forget(name),
            (None, Seen::AtSomeTime) => {}
        }
    }

    /// The semaphore is not there any more: all who wait for it are told.
    pub(in crate::engine) fn delete(&mut self, name: &SemaphoreName) {
        if let Some(room) = self.rooms.get(name) {
            self.call_anyway.extend(&room.parked);
            self.call_anyway.extend(&room.aside);
        }
    }

    /// Waiters that stepped aside and could have what they ask for now are back in their places.
    fn resize(&mut self, name: &SemaphoreName, capacity: Capacity) {
        let mut aside = BTreeSet::new();
        self.in_room(name, |room| {
            // Thousands may stand aside, and each look comes by here.
            if room.resize(capacity.value()) {
                aside.clone_from(&room.aside);
            }
        });
        for place in aside {
            if self.in_all_rooms(place, Room::could_ever_have) {
                self.set(place, Stands::Parked);
            }
        }
    }

    fn in_room(&mut self, name: &SemaphoreName, change: impl FnOnce(&mut Room)) {
        if let Some(room) = self.rooms.get_mut(name) {
            change(room);
            self.look_at.insert(name.clone());
        }
    }
}
