//! Moves waiters to the places that they had at other processes: see [`newcomers`](super::newcomers).

use std::collections::BTreeSet;
use std::time::Duration;

use lockhouse_core::{PlaceInLine, SemaphoreName};
use tokio::time::Instant;

use super::WaitingLine;
use super::newcomers::WaitersElsewhere;
use super::waiter::WaiterState;

/// For how many semaphores the lists are read in one round. A waiter that asks for more of them has a round to itself.
const MOST_SEMAPHORES: usize = 16;

/// A waiter whose place is better by less than this stays where it is.
const NOT_WORTH_MOVING: Duration = Duration::from_millis(50);

impl WaitingLine {
    /// When to call [`newcomers`](Self::newcomers) next.
    pub(in crate::engine) fn next_newcomers(&self) -> Option<Instant> {
        self.newcomers.next()
    }

    /// The waiters to look for on the lists of other processes now, and the semaphores whose lists
    /// to read.
    pub(in crate::engine) fn newcomers(&mut self) -> (Vec<PlaceInLine>, BTreeSet<SemaphoreName>) {
        let now = self.now;
        let (mut places, mut names) = (Vec::new(), BTreeSet::new());
        if self.newcomers.next().is_none_or(|next| now < next) {
            return (places, names);
        }
        while let Some((place, due)) = self.newcomers.places.front().copied()
            && due <= now
        {
            let wanted: Vec<_> = match self.waiters.get(&place) {
                Some(waiter) => {
                    let wanted = waiter.ask.permits().map(|(name, _)| name);
                    wanted
                        .filter(|name| !self.is_missing(name))
                        .cloned()
                        .collect()
                }
                None => Vec::new(),
            };
            let more = wanted.iter().filter(|name| !names.contains(*name)).count();
            // A waiter whose semaphores do not fit into this round is looked for in the next one.
            if !names.is_empty() && names.len() + more > MOST_SEMAPHORES {
                break;
            }
            self.newcomers.places.pop_front();
            if !wanted.is_empty() {
                places.push(place);
            }
            names.extend(wanted);
        }
        if !names.is_empty() {
            self.newcomers.read = Some(now);
        }
        (places, names)
    }

    /// Looks for the waiters `new` once more, later.
    pub(in crate::engine) fn look_again(&mut self, new: Vec<PlaceInLine>) {
        let now = self.now;
        new.into_iter()
            .for_each(|place| self.newcomers.add(place, now));
    }

    /// Moves those of the waiters `new` that waited at other processes to the places that they had
    /// there.
    pub(in crate::engine) fn resume(
        &mut self,
        new: Vec<PlaceInLine>,
        elsewhere: &WaitersElsewhere,
    ) {
        for place in new {
            let Some(waiter) = self.waiters.get(&place) else {
                continue;
            };
            let waited = elsewhere.waited(&waiter.ask, self.now, |name| self.is_missing(name));
            let Some(waited) = waited else {
                continue;
            };
            let is_better = waited > waiter.ticket.waited(self.now) + NOT_WORTH_MOVING;
            match waiter.state {
                WaiterState::Parked | WaiterState::Unsatisfiable if is_better => {
                    self.move_to_the_place_of(place, waited);
                }
                // The store is being asked for it at its present place. It moves after that, if it is refused.
                _ if is_better => self.newcomers.add(place, self.now),
                _ => {}
            }
        }
    }

    fn move_to_the_place_of(&mut self, place: PlaceInLine, waited: Duration) {
        let Some(state) = self.waiters.get(&place).map(|waiter| waiter.state) else {
            return;
        };
        self.set(place, WaiterState::Gone);
        let Some(mut waiter) = self.waiters.remove(&place) else {
            return;
        };
        waiter.ticket.resume(waited, self.now);
        let to = waiter.ticket.place;
        if let Some(same_id) = self.by_id.get_mut(&waiter.ask.external_id) {
            same_id.remove(&place);
            same_id.insert(to);
        }
        if self.call_anyway.remove(&place) {
            self.call_anyway.insert(to);
        }
        for (name, _) in waiter.ask.permits() {
            if let Some(line) = self.lines.get_mut(name) {
                line.registration.has_new_head();
                line.schedule.look_soon(self.now);
            }
        }
        self.is_news = true;
        self.moved.insert(waiter.first_place, to);
        self.waiters.insert(to, waiter);
        self.set(to, state);
    }

    /// The place of the waiter that had the place `first` at first.
    pub(super) fn present_place(&self, first: PlaceInLine) -> PlaceInLine {
        self.moved.get(&first).copied().unwrap_or(first)
    }
}
