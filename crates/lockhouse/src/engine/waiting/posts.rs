//! Where this process stands among others: what it tells them, and when.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use lockhouse_core::{Count, Place, Saved, SemaphoreName, Seniority, Stand, Standing};
use tokio::time::Instant;

use super::super::known::Known;
use super::super::line::{Head, REFRESHED_EVERY};
use super::super::room::Room;
use super::super::watch::Plan;
use super::{Stands, Waiter, Waiting};

/// How often the end of all waits is told again, while it may not have been saved, and for how long.
const AGAIN: Duration = Duration::from_secs(1);
const AT_MOST: u32 = 10;

/// Semaphores that nobody waits for any more, but where others may believe so.
#[derive(Debug, Default)]
pub(super) struct Farewells(BTreeMap<SemaphoreName, Farewell>);

#[derive(Clone, Copy, Debug)]
struct Farewell {
    due: Instant,
    sent: u32,
}

impl Farewells {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn add(&mut self, name: &SemaphoreName) {
        let due = Instant::now();
        let new = Farewell { due, sent: 0 };
        self.0.entry(name.clone()).or_insert(new);
    }

    pub(super) fn forget(&mut self, name: &SemaphoreName) {
        self.0.remove(name);
    }

    /// Those to send now. After a while the others have found out by themselves.
    fn send(&mut self, now: Instant) -> Vec<SemaphoreName> {
        self.0.retain(|_, farewell| farewell.sent < AT_MOST);
        let due = self
            .0
            .iter_mut()
            .filter(|(_, farewell)| farewell.due <= now);
        due.map(|(name, farewell)| {
            farewell.due = now + AGAIN;
            farewell.sent += 1;
            name.clone()
        })
        .collect()
    }

    fn next(&self) -> Option<Instant> {
        self.0.values().map(|farewell| farewell.due).min()
    }
}

impl Waiting {
    /// What is saved of this process's waiters for `name` with a batch that comes now.
    pub(in crate::engine) fn stand(&mut self, name: &SemaphoreName, saved: Saved) -> Stand {
        if let Some(room) = self.rooms.get_mut(name) {
            room.registration.go_along();
        }
        Stand {
            process: self.process,
            standing: self.standing(name),
            saved,
        }
    }

    fn standing(&self, name: &SemaphoreName) -> Option<Standing> {
        let room = self.rooms.get(name)?;
        let first = self.waiters.get(&room.head()?)?;
        let mut permits = first.ask.permits();
        let count = permits.find(|(wanted, _)| *wanted == name);
        Some(Standing {
            seniority: first.seniority(),
            count: count.map_or(Count::ONE, |(_, count)| count),
            waiting: room.standing().try_into().unwrap_or(u32::MAX),
        })
    }

    /// What to look at now, and when next, by one who `rests`; for what has lapsed by what is `known`
    /// to expire.
    pub(in crate::engine) fn plan(&mut self, known: &Known, rests: Instant, now: Instant) -> Plan {
        let watched = self.rooms.iter_mut();
        let watched = watched.map(|(name, room)| {
            let rank = room.registration.rank();
            (name, &mut room.watched, rank)
        });
        Plan::of(watched, known, rests, now)
    }

    /// Whether others may believe that somebody waits here where nobody does.
    pub(in crate::engine) fn says_farewell(&self) -> bool {
        !self.farewells.is_empty()
    }

    /// Where to save now that nobody waits any more.
    pub(in crate::engine) fn farewells(&mut self) -> Vec<SemaphoreName> {
        match self.farewells.is_empty() {
            true => Vec::new(),
            false => self.farewells.send(Instant::now()),
        }
    }

    /// What is to be saved of this process's waiters for its own sake, now.
    pub(in crate::engine) fn due_to_save(&mut self, now: Instant) -> Vec<(SemaphoreName, Saved)> {
        let mut due = Vec::new();
        self.send_due(REFRESHED_EVERY, now, &mut due);
        if !due.is_empty() {
            // What will be due before half of that time is over goes along, so that they share commits.
            self.send_due(REFRESHED_EVERY / 2, now, &mut due);
        }
        due
    }

    fn send_due(&mut self, every: Duration, now: Instant, due: &mut Vec<(SemaphoreName, Saved)>) {
        for (name, room) in &mut self.rooms {
            let Some(head) = head(&self.waiters, room) else {
                continue;
            };
            if let Some(saved) = room.registration.is_due(&head, every, now) {
                room.registration.send(now);
                due.push((name.clone(), saved));
            }
        }
    }

    /// When something is to be saved next, or others do not come first any more.
    pub(in crate::engine) fn next_to_save(&self, now: Instant) -> Option<Instant> {
        let rooms = self.rooms.values().filter_map(|room| {
            let head = head(&self.waiters, room)?;
            let next = room.registration.next(&head, now);
            next.into_iter()
                .chain(room.registration.others_first())
                .min()
        });
        rooms.chain(self.farewells.next()).min()
    }

    /// Others do not come first any more in some rooms: those who wait there are looked at again.
    pub(in crate::engine) fn look_where_others_were_first(&mut self, now: Instant) {
        let over = self.rooms.iter_mut().filter(|(_, room)| {
            let until = room.registration.others_first();
            until.is_some_and(|until| until <= now)
        });
        let names: BTreeSet<_> = over
            .map(|(name, room)| {
                room.registration.has_new_head();
                name.clone()
            })
            .collect();
        self.look_at.extend(names);
    }
}

/// The first waiter in a room.
pub(super) fn head(waiters: &HashMap<Place, Waiter>, room: &Room) -> Option<Head> {
    let first = waiters.get(&room.head()?)?;
    Some(Head {
        seniority: first.seniority(),
        waited: first.ticket.waited(),
        is_parked: first.stands == Stands::Parked,
        waiting: room.standing().try_into().unwrap_or(u32::MAX),
    })
}

impl Waiter {
    fn seniority(&self) -> Seniority {
        Seniority::new(self.ticket.waited(), self.ask.priority)
    }
}
