//! Who waits for room, in this process: one line for each semaphore, in the order of places. The store keeps the line of
//! all [processes](super::line).
//!
//! A waiter stands in the line of every semaphore that it wants, and holds nothing. It is called
//! when it is the first in all its lines and all of them are believed to have [`Room`] for it: so
//! nobody overtakes another on any semaphore that both want, and finding who may go takes a look
//! at the heads of lines only, however many wait (P11). Who is called is queued for a lane, and is
//! either served or stands where it stood.
//!
//! A waiter steps aside if one of its semaphores is closed, or has fewer permits in all than it asks
//! for: no release can serve it, and the others would wait for nothing. It keeps its place, and is
//! back there when the capacity allows it.

mod posts;
mod rooms;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use lockhouse_core::{
    Ask, ExternalId, Outcome, Place, ProcessId, Refusal, SemaphoreName, Turn, store,
};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::room::Room;
use super::ticket::{Ticket, Tickets, Wait, bytes, is_the_same};
use posts::Farewells;

/// How many may wait, unless said.
const MOST: usize = 10_000;

/// How much memory those who wait may take on average, when as many wait as may.
const BYTES_EACH: usize = 8 * 1024;

/// What a waiter is answered in the end.
pub(super) type Answered = Result<Outcome, store::Error>;

/// One who waits.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) ticket: Ticket,
    pub(super) ask: Ask,
    /// Why it was not granted when it last asked, as it is told when its wait ends.
    pub(super) refused: Refusal,
    pub(super) answer: oneshot::Sender<Answered>,
    stands: Stands,
    is_called: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stands {
    Parked,
    Aside,
    Queued,
    InLane,
    /// It needs a row that is locked, and is in nobody's way meanwhile.
    Locked,
    Gone,
}

#[derive(Debug)]
pub(super) struct Waiting {
    /// This process, as others see it.
    pub(super) process: ProcessId,
    pub(super) most: usize,
    tickets: Tickets,
    waiters: HashMap<Place, Waiter>,
    /// About how much memory they take.
    bytes: usize,
    by_id: HashMap<ExternalId, BTreeSet<Place>>,
    /// In one order always, so that whoever draws for each of them does so in it.
    rooms: BTreeMap<SemaphoreName, Room>,
    /// Whose heads may be able to go.
    look_at: BTreeSet<SemaphoreName>,
    /// Who is to ask whether there is room or not, as the answer will be another.
    call_anyway: BTreeSet<Place>,
    /// Where nobody waits any more, and others may believe so.
    farewells: Farewells,
}

impl Waiting {
    pub(super) fn new(process: ProcessId) -> Self {
        Self {
            process,
            most: MOST,
            tickets: Tickets::new(),
            waiters: HashMap::new(),
            bytes: 0,
            by_id: HashMap::new(),
            rooms: BTreeMap::new(),
            look_at: BTreeSet::new(),
            call_anyway: BTreeSet::new(),
            farewells: Farewells::default(),
        }
    }

    /// How many wait for `semaphore`.
    pub(super) fn on(&self, semaphore: &SemaphoreName) -> u32 {
        let waiting = self.rooms.get(semaphore).map_or(0, |room| room.waiting);
        u32::try_from(waiting).unwrap_or(u32::MAX)
    }

    /// Whether nobody waits, and every process knows.
    pub(super) fn is_empty(&self) -> bool {
        self.waiters.is_empty() && self.farewells.is_empty()
    }

    /// The rooms of `names` are to be looked at soon; all of them if there are none.
    pub(super) fn look_soon(&mut self, names: &BTreeSet<SemaphoreName>) {
        for (name, room) in &mut self.rooms {
            if names.is_empty() || names.contains(name) {
                room.watched.look_soon(Instant::now());
            }
        }
    }

    pub(super) fn get(&self, place: Place) -> Option<&Waiter> {
        self.waiters.get(&place)
    }

    /// All who wait, in any order.
    pub(super) fn waiters(&self) -> impl Iterator<Item = (&Place, &Waiter)> {
        self.waiters.iter()
    }

    /// The semaphores that are believed to have too few free permits for `ask`.
    pub(super) fn lacks(&self, ask: &Ask) -> Vec<SemaphoreName> {
        let lacking = ask.permits().filter(|(name, count)| {
            let room = self.rooms.get(*name);
            room.is_some_and(|room| room.is_too_small_for(count.value()))
        });
        lacking.map(|(name, _)| name.clone()).collect()
    }

    /// A ticket for `ask`, which comes now.
    pub(super) fn ticket(&mut self, ask: &Ask, wait: Wait) -> Ticket {
        let same_id = self.by_id.get(&ask.external_id).into_iter().flatten();
        let mut waiters = same_id.filter_map(|place| self.waiters.get(place));
        let same = waiters.find(|waiter| is_the_same(&waiter.ask, ask));
        let same = same.map(|waiter| &waiter.ticket);
        self.tickets.give(ask, wait, same)
    }

    /// Puts one in its lines that was refused; false if too many wait, or take too much memory. The next call of one who
    /// waits already is let in though.
    pub(super) fn park(
        &mut self,
        ticket: Ticket,
        ask: Ask,
        refusal: &Refusal,
        answer: oneshot::Sender<Answered>,
    ) -> bool {
        let waits = self.by_id.get(&ask.external_id);
        let calls = waits.map_or(0, BTreeSet::len);
        let is_full =
            self.waiters.len() >= self.most || self.bytes >= self.most.saturating_mul(BYTES_EACH);
        if is_full && calls != 1 {
            return false;
        }
        let place = ticket.place;
        let now = Instant::now();
        for (name, _) in ask.permits() {
            let room = self.rooms.entry(name.clone());
            let room = room.or_insert_with(|| Room::new(self.process, now));
            room.waiting += 1;
            room.registration.has_new_head();
            self.farewells.forget(name);
        }
        let same_id = self.by_id.entry(ask.external_id.clone()).or_default();
        same_id.insert(place);
        let waiter = Waiter {
            ticket,
            ask,
            refused: at_the_end_of_a_wait(refusal),
            answer,
            stands: Stands::InLane,
            is_called: false,
        };
        self.bytes += bytes(&waiter.ask);
        self.waiters.insert(place, waiter);
        self.refuse_waiter(place, refusal);
        true
    }

    /// One who asked and was refused stands where it stood.
    pub(super) fn refuse_waiter(&mut self, place: Place, refusal: &Refusal) {
        let stands = match refusal {
            Refusal::Closed(_) | Refusal::ExceedsCapacity { .. } => Stands::Aside,
            _ => Stands::Parked,
        };
        self.set(place, stands);
        let Some(waiter) = self.waiters.get_mut(&place) else {
            return;
        };
        waiter.refused = at_the_end_of_a_wait(refusal);
        let ask = waiter.ask.clone();
        self.refuse(&ask, refusal);
        if let Refusal::OthersFirst(names) = refusal {
            for name in names {
                let room = self.rooms.get_mut(name);
                // Those behind the first wait for it in any case.
                if let Some(room) = room.filter(|room| room.head() == Some(place)) {
                    room.registration.refuse();
                }
            }
        }
    }

    /// Takes one out of its lines that gives up, and keeps its place for a while. One who is in a
    /// lane stays until it is answered there.
    pub(super) fn leave(&mut self, place: Place) -> Option<Waiter> {
        if self.waiters.get(&place)?.stands == Stands::InLane {
            return None;
        }
        let waiter = self.remove(place)?;
        self.keep(&waiter);
        Some(waiter)
    }

    /// Keeps the place of one who may come back.
    pub(super) fn keep(&mut self, waiter: &Waiter) {
        self.tickets.keep(&waiter.ticket, &waiter.ask, self.most);
    }

    /// Takes one out of its lines that is answered.
    pub(super) fn remove(&mut self, place: Place) -> Option<Waiter> {
        self.set(place, Stands::Gone);
        let waiter = self.waiters.remove(&place)?;
        self.bytes -= bytes(&waiter.ask);
        self.call_anyway.remove(&place);
        if let Some(same_id) = self.by_id.get_mut(&waiter.ask.external_id) {
            same_id.remove(&place);
            if same_id.is_empty() {
                self.by_id.remove(&waiter.ask.external_id);
            }
        }
        for (name, _) in waiter.ask.permits() {
            let Some(room) = self.rooms.get_mut(name) else {
                continue;
            };
            room.waiting -= 1;
            if room.waiting == 0 {
                if room.registration.may_be_there() {
                    self.farewells.add(name);
                }
                self.rooms.remove(name);
                self.look_at.remove(name);
            }
        }
        Some(waiter)
    }

    /// The turn of an ask in the batch that takes it now.
    pub(super) fn turn(&self, ask: &Ask, ticket: &Ticket) -> Turn {
        let is_behind = |name: &&SemaphoreName| {
            let room = self.rooms.get(*name);
            room.is_some_and(|room| room.is_behind(ticket.place))
        };
        let names = ask.permits().map(|(name, _)| name);
        Turn {
            place: ticket.place,
            waits: !ticket.wait.is_over(),
            behind: names.filter(is_behind).cloned().collect(),
            process: self.process,
            waited: ticket.waited(),
        }
    }

    /// The turn of one who was called in the batch that takes it now; None if it has left.
    pub(super) fn take(&mut self, place: Place) -> Option<Turn> {
        if self.waiters.get(&place)?.stands != Stands::Queued {
            return None;
        }
        self.set(place, Stands::InLane);
        let waiter = self.waiters.get(&place)?;
        Some(self.turn(&waiter.ask, &waiter.ticket))
    }

    /// One that was called needs a row that is locked.
    pub(super) fn lock(&mut self, place: Place) {
        self.set(place, Stands::Locked);
    }

    /// That row is free: it is queued again.
    pub(super) fn unlock(&mut self, place: Place) {
        self.set(place, Stands::Queued);
    }

    /// Calls those who may go now, in their order.
    pub(super) fn call(&mut self) -> Vec<Place> {
        let mut called = Vec::new();
        while let Some(place) = self.call_anyway.pop_first() {
            let waiter = self.waiters.get(&place);
            if waiter.is_some_and(|w| matches!(w.stands, Stands::Parked | Stands::Aside)) {
                self.set(place, Stands::Queued);
                called.push(place);
            }
        }
        while let Some(name) = self.look_at.pop_first() {
            while let Some(place) = self.head(&name) {
                if !self.in_all_rooms(place, Room::could_ever_have) {
                    self.set(place, Stands::Aside);
                } else if self.in_all_rooms(place, Room::has)
                    && self.in_all_rooms(place, |room, _| room.parked.first() == Some(&place))
                    && self.in_all_rooms(place, |room, _| !room.registration.waits_for_others())
                {
                    self.set(place, Stands::Queued);
                    called.push(place);
                } else {
                    break;
                }
            }
        }
        called
    }

    fn head(&self, name: &SemaphoreName) -> Option<Place> {
        self.rooms.get(name)?.parked.first().copied()
    }

    fn in_all_rooms(&self, place: Place, is: impl Fn(&Room, u32) -> bool) -> bool {
        let Some(waiter) = self.waiters.get(&place) else {
            return false;
        };
        waiter.ask.permits().all(|(name, count)| {
            let room = self.rooms.get(name);
            room.is_some_and(|room| is(room, count.value()))
        })
    }

    /// Moves one to where it `stands` from here on.
    fn set(&mut self, place: Place, stands: Stands) {
        let Some(waiter) = self.waiters.get_mut(&place) else {
            return;
        };
        let before = std::mem::replace(&mut waiter.stands, stands);
        let was_called = waiter.is_called;
        waiter.is_called = match stands {
            Stands::Parked | Stands::Aside | Stands::Locked | Stands::Gone => false,
            Stands::Queued => true,
            Stands::InLane => was_called,
        };
        for (name, count) in waiter.ask.permits() {
            let Some(room) = self.rooms.get_mut(name) else {
                continue;
            };
            if let Some(places) = room.places(before) {
                places.remove(&place);
            }
            if let Some(places) = room.places(stands) {
                places.insert(place);
            }
            match (was_called, waiter.is_called) {
                (false, true) => room.call(count.value()),
                (true, false) => room.answer(count.value()),
                _ => {}
            }
            self.look_at.insert(name.clone());
        }
    }
}

impl Room {
    fn places(&mut self, stands: Stands) -> Option<&mut BTreeSet<Place>> {
        match stands {
            Stands::Parked => Some(&mut self.parked),
            Stands::Aside => Some(&mut self.aside),
            Stands::Queued => Some(&mut self.queued),
            Stands::InLane | Stands::Locked | Stands::Gone => None,
        }
    }
}

/// A waiter was admitted before the capacity became too small for it, so that is no mistake of its.
fn at_the_end_of_a_wait(refusal: &Refusal) -> Refusal {
    match refusal.clone() {
        Refusal::OthersFirst(names) => Refusal::Exhausted(names),
        Refusal::ExceedsCapacity { semaphore, .. } => Refusal::Exhausted(vec![semaphore]),
        other => other,
    }
}
