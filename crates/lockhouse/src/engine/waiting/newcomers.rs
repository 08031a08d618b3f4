//! Waiters that may have waited at another process before.
//!
//! A caller asks again at another process if its server has stopped or died, or if a load balancer sends its next call there.
//! Each process [publishes](super::super::publisher) its waiters. Once a new waiter has waited for 250 ms, the poller reads the
//! lists of the other processes. A waiter that is on one of them with the same ask moves to the place that it had there. The
//! lists are read at most every 500 ms, for all new waiters together, so a shorter wait costs nothing.
//!
//! Only the order depends on it (P11): the store decides every grant.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use lockhouse_core::store::{Shown, Waiter as ListedWaiter};
use lockhouse_core::{Ask, Count, ExternalId, Owner, Place, ProcessId, SemaphoreName};
use tokio::time::Instant;

use super::WaitingLine;
use super::waiter::WaiterState;

/// When a new waiter is looked for on the lists, and how often they are read at most.
const READ_AFTER: Duration = Duration::from_millis(250);
const READ_EVERY: Duration = Duration::from_millis(500);

/// How many semaphores' lists are read at once. Further asks are looked for the next time.
const MOST_SEMAPHORES: usize = 16;

/// A waiter whose place is better by less than this stays where it is.
const NOT_WORTH_MOVING: Duration = Duration::from_millis(50);

/// The waiters that are to be looked for, in the order of their arrival.
#[derive(Debug, Default)]
pub(super) struct Newcomers {
    places: VecDeque<(Place, Instant)>,
    /// When the lists were last read.
    read: Option<Instant>,
}

impl Newcomers {
    pub(super) fn add(&mut self, place: Place) {
        self.places.push_back((place, Instant::now() + READ_AFTER));
    }

    fn next(&self) -> Option<Instant> {
        let (_, due) = self.places.front()?;
        Some(self.read.map_or(*due, |read| (read + READ_EVERY).max(*due)))
    }
}

/// The waiters on the lists of other processes.
#[derive(Debug)]
pub(in crate::engine) struct WaitersElsewhere {
    process: ProcessId,
    waiters: HashMap<(SemaphoreName, ExternalId), Vec<Elsewhere>>,
}

/// A waiter on the list of another process.
#[derive(Debug)]
struct Elsewhere {
    count: Count,
    owner: Option<Owner>,
    /// How long it had waited when the list was read.
    waited: Duration,
    read: Instant,
}

impl WaitersElsewhere {
    /// No waiters as yet; `process` is this one.
    pub(in crate::engine) fn new(process: ProcessId) -> Self {
        Self {
            process,
            waiters: HashMap::new(),
        }
    }

    /// Adds the lists for `name`, which were read just now.
    pub(in crate::engine) fn add(&mut self, name: &SemaphoreName, shown: Shown) {
        let (now, read) = (shown.now, Instant::now());
        let others = shown.processes.into_iter();
        let others = others.filter(|(process, _)| *process != self.process);
        for waiter in others.flat_map(|(_, waiters)| waiters) {
            let ListedWaiter {
                external_id,
                owner,
                count,
                since,
                ..
            } = waiter;
            let waited = Duration::try_from(since.duration_until(now)).unwrap_or_default();
            let of_id = self.waiters.entry((name.clone(), external_id));
            of_id.or_default().push(Elsewhere {
                count,
                owner,
                waited,
                read,
            });
        }
    }

    /// How long the caller of `ask` has waited at other processes. It must be on the lists of all
    /// of its semaphores but those that are `missing`, as those have none.
    fn waited(&self, ask: &Ask, missing: impl Fn(&SemaphoreName) -> bool) -> Option<Duration> {
        let permits = ask.permits().filter(|(name, _)| !missing(name));
        let waited = permits.map(|(name, count)| {
            let key = (name.clone(), ask.external_id.clone());
            let same = self.waiters.get(&key)?.iter();
            let same = same.filter(|waiter| waiter.count == count && waiter.owner == ask.owner);
            same.map(|waiter| waiter.waited + waiter.read.elapsed())
                .max()
        });
        waited.collect::<Option<Vec<_>>>()?.into_iter().min()
    }
}

impl WaitingLine {
    /// When to call [`newcomers`](Self::newcomers) next.
    pub(in crate::engine) fn next_newcomers(&self) -> Option<Instant> {
        self.newcomers.next()
    }

    /// The waiters to look for on the lists of other processes now, and the semaphores whose lists
    /// to read.
    pub(in crate::engine) fn newcomers(
        &mut self,
        now: Instant,
    ) -> (Vec<Place>, BTreeSet<SemaphoreName>) {
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
            // One that waits for more of them has a turn of its own.
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
    pub(in crate::engine) fn look_again(&mut self, new: Vec<Place>) {
        new.into_iter().for_each(|place| self.newcomers.add(place));
    }

    /// Moves those of the waiters `new` that waited at other processes to the places that they had
    /// there.
    pub(in crate::engine) fn resume(&mut self, new: Vec<Place>, elsewhere: &WaitersElsewhere) {
        for place in new {
            let Some(waiter) = self.waiters.get(&place) else {
                continue;
            };
            let waited = elsewhere.waited(&waiter.ask, |name| self.is_missing(name));
            let Some(waited) = waited else {
                continue;
            };
            let is_better = waited > waiter.ticket.waited() + NOT_WORTH_MOVING;
            match waiter.state {
                WaiterState::Parked | WaiterState::Unsatisfiable if is_better => {
                    self.move_to_the_place_of(place, waited);
                }
                // It is being asked for, at the place that it has.
                _ if is_better => self.newcomers.add(place),
                _ => {}
            }
        }
    }

    fn move_to_the_place_of(&mut self, place: Place, waited: Duration) {
        let Some(state) = self.waiters.get(&place).map(|waiter| waiter.state) else {
            return;
        };
        self.set(place, WaiterState::Gone);
        let Some(mut waiter) = self.waiters.remove(&place) else {
            return;
        };
        waiter.ticket.resume(waited);
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
                line.schedule.look_soon(Instant::now());
            }
        }
        self.moved.insert(waiter.first_place, to);
        self.waiters.insert(to, waiter);
        self.set(to, state);
    }

    /// The place of the waiter that had the place `first` at first.
    pub(super) fn present_place(&self, first: Place) -> Place {
        self.moved.get(&first).copied().unwrap_or(first)
    }
}
