//! The waiting line of this process: one line for each semaphore, in the order of places. The store
//! keeps the line of all processes; [`registration`] explains this process's entry there.
//!
//! A waiter stands in the line of every semaphore that it asks for, and holds nothing. It is called
//! when it is the first in all its lines and each [`SemaphoreLine`] is believed to have room for
//! it. So no waiter overtakes another on a semaphore that both want, and finding the next waiter
//! reads only the heads of lines, however many wait (P11). A called waiter is queued for a lane. It
//! is served there, or returns to its place.
//!
//! A waiter that lacks room on a [keyed](keys) semaphore blocks nobody on its other semaphores.
//!
//! A waiter is unsatisfiable while one of its semaphores is closed or smaller than its ask. No
//! release can serve it, so it steps aside for the others. It keeps its place, and returns there
//! when the capacity allows it.

mod deregistrations;
mod keys;
mod lines;
mod moving;
mod newcomers;
mod observations;
mod registration;
mod registrations;
mod schedule;
mod semaphore_line;
mod ticket;
mod waiter;

use std::collections::{BTreeSet, HashMap};

use lockhouse_core::{Ask, ExternalId, PlaceInLine, ProcessId, Refusal, SemaphoreName, Turn};
use tokio::sync::oneshot;
use tokio::time::Instant;

use deregistrations::Deregistrations;
use lines::Lines;
use newcomers::Newcomers;
use semaphore_line::SemaphoreLine;
use ticket::{Tickets, bytes, is_the_same};
use waiter::WaiterState;

pub(super) use newcomers::WaitersElsewhere;
pub(super) use registration::Observed;
pub(super) use schedule::PollPlan;
pub(super) use ticket::{Ticket, Wait};
pub(super) use waiter::{Answered, WaitingCall};

/// How many calls may wait by default.
const MOST: usize = 10_000;

/// How much memory a waiter and its lines may take on average when the line is full.
const BYTES_EACH: usize = 8 * 1024;

#[derive(Debug)]
pub(super) struct WaitingLine {
    /// The time of the event that is handled.
    now: Instant,
    /// The id of this process in the lines of the store.
    pub(super) process: ProcessId,
    /// How many calls may wait.
    most: usize,
    /// Whether there is something new for the poller to look at.
    is_news: bool,
    tickets: Tickets,
    waiters: HashMap<PlaceInLine, WaitingCall>,
    /// About how much memory the waiters take, beside their lines.
    bytes: usize,
    by_id: HashMap<ExternalId, BTreeSet<PlaceInLine>>,
    lines: Lines,
    newcomers: Newcomers,
    /// The present places of waiters that moved, by their first ones.
    moved: HashMap<PlaceInLine, PlaceInLine>,
    /// The semaphores whose first waiters may have room now.
    look_at: BTreeSet<SemaphoreName>,
    /// Waiters to call whether there is room or not, since they will get another answer.
    call_anyway: BTreeSet<PlaceInLine>,
    /// Entries of this process in the store that are to be removed.
    deregistrations: Deregistrations,
    /// Whether a call ever waited for a keyed semaphore. Without templates, checks of keys are
    /// skipped.
    knows_keys: bool,
}

impl WaitingLine {
    pub(super) fn new(process: ProcessId, now: Instant) -> Self {
        Self {
            now,
            process,
            most: MOST,
            is_news: false,
            tickets: Tickets::new(now),
            waiters: HashMap::new(),
            bytes: 0,
            by_id: HashMap::new(),
            lines: Lines::default(),
            newcomers: Newcomers::default(),
            moved: HashMap::new(),
            look_at: BTreeSet::new(),
            call_anyway: BTreeSet::new(),
            deregistrations: Deregistrations::default(),
            knows_keys: false,
        }
    }

    /// Sets the time of the next events.
    pub(super) fn at(&mut self, now: Instant) {
        self.now = now;
    }

    /// The time of the event that is handled.
    pub(super) fn now(&self) -> Instant {
        self.now
    }

    /// Sets how many calls may wait.
    pub(super) fn limit(&mut self, most: usize) {
        self.most = most;
    }

    /// How many calls wait for `semaphore`.
    pub(super) fn on(&self, semaphore: &SemaphoreName) -> u32 {
        let waiting = self.lines.get(semaphore).map_or(0, |line| line.waiting);
        u32::try_from(waiting).unwrap_or(u32::MAX)
    }

    /// Whether no call waits and no entry is left to remove.
    pub(super) fn is_empty(&self) -> bool {
        self.waiters.is_empty() && self.deregistrations.is_empty()
    }

    /// Makes the poller read the semaphores `names` soon, or all semaphores if `names` is empty.
    pub(super) fn look_soon(&mut self, names: &BTreeSet<SemaphoreName>) {
        self.is_news = true;
        for (name, line) in self.lines.there_mut() {
            if names.is_empty() || names.contains(name) {
                line.schedule.look_soon(self.now);
            }
        }
    }

    /// Whether there is something new for the poller to look at. Returns true once for each event.
    pub(super) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.is_news)
    }

    pub(super) fn get(&self, place: PlaceInLine) -> Option<&WaitingCall> {
        self.waiters.get(&place)
    }

    /// All waiters, in any order.
    pub(super) fn waiters(&self) -> impl Iterator<Item = (&PlaceInLine, &WaitingCall)> {
        self.waiters.iter()
    }

    /// The semaphores that are believed to have too few free permits for `ask`.
    pub(super) fn lacks(&self, ask: &Ask) -> Vec<SemaphoreName> {
        let lacking = ask.permits().filter(|(name, count)| {
            let line = self.lines.get(name);
            line.is_some_and(|line| line.is_too_small_for(count.value()))
        });
        lacking.map(|(name, _)| name.clone()).collect()
    }

    /// A ticket for `ask`, which arrives now.
    pub(super) fn ticket(&mut self, ask: &Ask, wait: Wait) -> Ticket {
        let same_id = self.by_id.get(&ask.external_id).into_iter().flatten();
        let mut waiters = same_id.filter_map(|place| self.waiters.get(place));
        let same = waiters.find(|waiter| is_the_same(&waiter.ask, ask));
        let same = same.map(|waiter| &waiter.ticket);
        self.tickets.give(ask, wait, same, self.now)
    }

    /// Puts a refused ask in its lines. Returns false if too many calls wait or take too much
    /// memory. The next call of an ask that already waits is let in all the same.
    pub(super) fn park(
        &mut self,
        ticket: Ticket,
        ask: Ask,
        refusal: &Refusal,
        answer: oneshot::Sender<Answered>,
    ) -> bool {
        let waits = self.by_id.get(&ask.external_id);
        let calls = waits.map_or(0, BTreeSet::len);
        let all_bytes = self.bytes + self.lines.bytes();
        let is_full =
            self.waiters.len() >= self.most || all_bytes >= self.most.saturating_mul(BYTES_EACH);
        if is_full && calls != 1 {
            return false;
        }
        let (place, now) = (ticket.place, self.now);
        self.is_news = true;
        for (name, _) in ask.permits() {
            let begin = || SemaphoreLine::new(self.process, now);
            let line = self.lines.get_or_begin(name, begin);
            line.waiting += 1;
            line.registration.has_new_head();
            if self.deregistrations.forget(name) {
                line.registration.go_along();
            }
        }
        let same_id = self.by_id.entry(ask.external_id.clone()).or_default();
        same_id.insert(place);
        if !ticket.is_back {
            self.newcomers.add(place, now);
        }
        let waiter = WaitingCall {
            first_place: place,
            ticket,
            ask,
            refused: at_the_end_of_a_wait(refusal),
            answer,
            state: WaiterState::InLane,
            is_called: false,
            lacking_keys: Vec::new(),
        };
        self.bytes += bytes(&waiter.ask);
        self.waiters.insert(place, waiter);
        self.refuse_waiter(place, refusal);
        true
    }

    /// Returns a refused waiter to its place.
    pub(super) fn refuse_waiter(&mut self, place: PlaceInLine, refusal: &Refusal) {
        let state = match refusal {
            Refusal::Closed(_) | Refusal::ExceedsCapacity { .. } => WaiterState::Unsatisfiable,
            _ => WaiterState::Parked,
        };
        self.set(place, state);
        let Some(waiter) = self.waiters.get_mut(&place) else {
            return;
        };
        waiter.refused = at_the_end_of_a_wait(refusal);
        let ask = waiter.ask.clone();
        self.refuse(&ask, refusal);
        if let Refusal::OthersFirst(names) = refusal {
            for name in names {
                let line = self.lines.get_mut(name);
                // Waiters behind the first wait for it in any case.
                if let Some(line) = line.filter(|line| line.head() == Some(place)) {
                    line.registration.refuse();
                }
            }
        }
    }

    /// Takes a waiter that gives up out of its lines, and keeps its place for a while. A waiter in
    /// a lane stays until it is answered there. `place` is the one that it had at first. Its
    /// answer names the semaphores that it lacks now, not those that it lacked when it was refused.
    pub(super) fn leave(&mut self, place: PlaceInLine) -> Option<WaitingCall> {
        let place = self.present_place(place);
        let waiter = self.waiters.get(&place)?;
        if waiter.state == WaiterState::InLane {
            return None;
        }
        let lacks = self.lacks(&waiter.ask);
        let mut waiter = self.remove(place)?;
        let is_outdated = match &waiter.refused {
            Refusal::Exhausted(names) | Refusal::Closed(names) => {
                !names.iter().all(|name| lacks.contains(name))
            }
            _ => false,
        };
        if is_outdated && !lacks.is_empty() {
            waiter.refused = Refusal::Exhausted(lacks);
        }
        self.keep(&waiter.ticket, &waiter.ask);
        Some(waiter)
    }

    /// Keeps the place of a waiter that may come back.
    pub(super) fn keep(&mut self, ticket: &Ticket, ask: &Ask) {
        self.tickets.keep(ticket, ask, self.most, self.now);
    }

    /// Takes an answered waiter out of its lines.
    pub(super) fn remove(&mut self, place: PlaceInLine) -> Option<WaitingCall> {
        self.set(place, WaiterState::Gone);
        let waiter = self.waiters.remove(&place)?;
        self.bytes -= bytes(&waiter.ask);
        self.call_anyway.remove(&place);
        if !self.moved.is_empty() {
            self.moved.remove(&waiter.first_place);
        }
        if let Some(same_id) = self.by_id.get_mut(&waiter.ask.external_id) {
            same_id.remove(&place);
            if same_id.is_empty() {
                self.by_id.remove(&waiter.ask.external_id);
            }
        }
        for (name, _) in waiter.ask.permits() {
            let Some(line) = self.lines.get_mut(name) else {
                continue;
            };
            line.waiting -= 1;
            if line.waiting == 0 {
                if line.registration.may_be_there() {
                    self.deregistrations.add(name, self.now);
                }
                self.lines.remove(name);
                self.look_at.remove(name);
            }
        }
        Some(waiter)
    }

    /// The turn of an ask in the batch that takes it now.
    pub(super) fn turn(&self, ask: &Ask, ticket: &Ticket) -> Turn {
        let is_behind = |name: &&SemaphoreName| {
            let line = self.lines.get(name);
            line.is_some_and(|line| line.is_behind(ticket.place))
        };
        let names = ask.permits().map(|(name, _)| name);
        Turn {
            place: ticket.place,
            waits: !ticket.wait.is_over(self.now),
            behind: names.filter(is_behind).cloned().collect(),
            process: self.process,
            waited: ticket.waited(self.now),
        }
    }

    /// The turn of a called waiter in the batch that takes it now. `None` if the waiter has left.
    pub(super) fn take(&mut self, place: PlaceInLine) -> Option<Turn> {
        if self.waiters.get(&place)?.state != WaiterState::Queued {
            return None;
        }
        self.set(place, WaiterState::InLane);
        let waiter = self.waiters.get(&place)?;
        Some(self.turn(&waiter.ask, &waiter.ticket))
    }

    /// Records that a called waiter needs a locked row.
    pub(super) fn lock(&mut self, place: PlaceInLine) {
        self.set(place, WaiterState::Locked);
    }

    /// Records that the row is free and the waiter is queued again.
    pub(super) fn unlock(&mut self, place: PlaceInLine) {
        self.set(place, WaiterState::Queued);
    }

    /// Calls the waiters that may be served now, in order.
    pub(super) fn call(&mut self) -> Vec<PlaceInLine> {
        let mut called = Vec::new();
        while let Some(place) = self.call_anyway.pop_first() {
            let waiter = self.waiters.get(&place);
            if waiter.is_some_and(|w| {
                matches!(w.state, WaiterState::Parked | WaiterState::Unsatisfiable)
            }) {
                self.set(place, WaiterState::Queued);
                called.push(place);
            }
        }
        while let Some(name) = self.look_at.pop_first() {
            self.reconsider(&name);
            while let Some(place) = self.head(&name) {
                if !self.in_all_lines(place, SemaphoreLine::could_ever_have) {
                    self.set(place, WaiterState::Unsatisfiable);
                } else if self.in_all_lines(place, SemaphoreLine::has)
                    && self.in_all_lines(place, |line, _| line.parked.first() == Some(&place))
                    && self.in_all_lines(place, |line, _| {
                        !line.registration.waits_for_others(self.now)
                    })
                {
                    self.set(place, WaiterState::Queued);
                    called.push(place);
                } else {
                    break;
                }
            }
        }
        called
    }

    fn head(&self, name: &SemaphoreName) -> Option<PlaceInLine> {
        self.lines.get(name)?.parked.first().copied()
    }

    fn in_all_lines(&self, place: PlaceInLine, is: impl Fn(&SemaphoreLine, u32) -> bool) -> bool {
        let Some(waiter) = self.waiters.get(&place) else {
            return false;
        };
        waiter.ask.permits().all(|(name, count)| {
            let line = self.lines.get(name);
            line.is_some_and(|line| is(line, count.value()))
        })
    }

    /// Moves a waiter to `state`.
    fn set(&mut self, place: PlaceInLine, state: WaiterState) {
        let Some(waiter) = self.waiters.get_mut(&place) else {
            return;
        };
        let before = std::mem::replace(&mut waiter.state, state);
        let was_called = waiter.is_called;
        waiter.is_called = match state {
            WaiterState::Parked
            | WaiterState::Unsatisfiable
            | WaiterState::Locked
            | WaiterState::Gone => false,
            WaiterState::Queued => true,
            WaiterState::InLane => was_called,
        };
        // This comes first: the permits that a waiter was called for itself are not lacking.
        for (name, count) in waiter.ask.permits() {
            match (self.lines.get_mut(name), was_called, waiter.is_called) {
                (Some(line), false, true) => line.call(place, count.value()),
                (Some(line), true, false) => line.answer(place),
                _ => {}
            }
        }
        let lacking_keys = match state {
            WaiterState::Parked => self.lacking_keys(place),
            _ => Vec::new(),
        };
        let Some(waiter) = self.waiters.get_mut(&place) else {
            return;
        };
        let lacked = std::mem::replace(&mut waiter.lacking_keys, lacking_keys);
        let is_front = state == WaiterState::Parked && waiter.lacking_keys.is_empty();
        for (name, _) in waiter.ask.permits() {
            let Some(line) = self.lines.get_mut(name) else {
                continue;
            };
            if let Some(places) = line.places(before, is_held_back(&lacked, name)) {
                places.remove(&place);
            }
            if let Some(places) = line.places(state, is_held_back(&waiter.lacking_keys, name)) {
                places.insert(place);
            }
            if line.is_keyed {
                line.fronts.remove(&place);
                line.fronts.extend(is_front.then_some(place));
            }
            self.look_at.insert(name.clone());
        }
    }
}

impl SemaphoreLine {
    fn places(
        &mut self,
        state: WaiterState,
        is_held_back: bool,
    ) -> Option<&mut BTreeSet<PlaceInLine>> {
        match state {
            WaiterState::Parked if is_held_back => Some(&mut self.held_back),
            WaiterState::Parked => Some(&mut self.parked),
            WaiterState::Unsatisfiable => Some(&mut self.unsatisfiable),
            WaiterState::Queued => Some(&mut self.queued),
            WaiterState::InLane | WaiterState::Locked | WaiterState::Gone => None,
        }
    }
}

/// Whether a waiter that lacks the keys `lacking` is held back on `name`.
fn is_held_back(lacking: &[SemaphoreName], name: &SemaphoreName) -> bool {
    !lacking.is_empty() && !lacking.contains(name)
}

/// The refusal that a waiter gets at the end of its wait. The capacity became too small for it only
/// after it was let in, so the answer is "exhausted".
fn at_the_end_of_a_wait(refusal: &Refusal) -> Refusal {
    match refusal.clone() {
        Refusal::OthersFirst(names) => Refusal::Exhausted(names),
        Refusal::ExceedsCapacity { semaphore, .. } => Refusal::Exhausted(vec![semaphore]),
        other => other,
    }
}
