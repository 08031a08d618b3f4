//! The waiters of each server, and the order in which they were served (P10, P11).
//!
//! A waiter that lacks keys, which are semaphores of a template, stands only in the lines of these keys (`keys`).

use std::collections::BTreeMap;
use std::time::Duration;

use lockhouse::{Ask, ExternalId, Request, SemaphoreName, Timestamp};
use lockhouse_core::Footprint;

use super::keys::{self, Clear};
use super::ledger::Ledger;
use super::violation::{Check, ensure};

/// A second, and some calls on a store that is a little slow.
const SOON: Duration = Duration::from_millis(1_100);

/// The waiting time that one step of priority is worth.
const STEP_US: i64 = 10_000_000;

/// How much later a waiter at another server may come, and still be served first. P11 allows 500 ms and a commit.
const OVERTAKES_US: i64 = 550_000;

/// How long a server may retry after a fault until it works again.
const AT_WORK_AGAIN_US: i64 = 2_000_000;

/// How long a server that polls may take to find a row free, on a store that is slow or cut off.
const FOUND_FREE_US: i64 = 3_000_000;

#[derive(Debug, Default)]
pub(super) struct Turns {
    last: u64,
    waiting: BTreeMap<u64, Waiter>,
    served: Vec<Served>,
    /// When an id was first asked for, at any server. A later ask may still have that place.
    came: BTreeMap<ExternalId, Place>,
    /// Rows that a transaction locks, and when it ended, if it has.
    locked: Vec<(u64, Footprint, Option<i64>)>,
    /// The time of each commit.
    commits: BTreeMap<u64, i64>,
    /// When a server may have been unable to claim permits left to it.
    away: Vec<(String, i64, i64)>,
    /// When the store's clock was set.
    moved: Vec<i64>,
}

/// The time of a waiter's arrival, moved by its priority, and the waiter's number.
type Place = (i64, u64);

#[derive(Debug)]
struct Waiter {
    server: String,
    ask: Ask,
    /// The latest place that the waiter can have. `earliest` is the earliest.
    place: Place,
    earliest: Place,
    came_us: i64,
    waits: bool,
    is_new: bool,
    /// Whether a row that it needs was locked, so that others may have passed (P13).
    met_lock: bool,
    since: u64,
    /// Since when the waiter could have been served.
    fits: Option<Timestamp>,
    /// When the waiter lacked no key.
    clear: Clear,
}

#[derive(Debug)]
struct Served {
    waiter: Waiter,
    request: Request,
}

impl Turns {
    /// Enters a call, which waits if there is no room.
    pub(super) fn begin(
        &mut self,
        server: &str,
        ask: &Ask,
        waits: bool,
        now_us: i64,
        commit: u64,
    ) -> u64 {
        self.last += 1;
        let place = (
            now_us - i64::from(ask.priority.value()) * STEP_US,
            self.last,
        );
        let is_new = !self.came.contains_key(&ask.external_id);
        let first = self.came.entry(ask.external_id.clone()).or_insert(place);
        *first = place.min(*first);
        let waiter = Waiter {
            server: server.to_owned(),
            ask: ask.clone(),
            place,
            earliest: *first,
            came_us: now_us,
            waits,
            is_new,
            met_lock: self.is_locked(ask, now_us),
            since: commit,
            fits: None,
            clear: Clear::default(),
        };
        self.waiting.insert(self.last, waiter);
        self.last
    }

    /// The transaction of `key` keeps `rows` locked from now on.
    pub(super) fn lock(&mut self, key: u64, rows: &Footprint) {
        for waiter in self.waiting.values_mut() {
            waiter.met_lock |= needs(&waiter.ask).overlaps(rows);
        }
        self.locked.push((key, rows.clone(), None));
    }

    pub(super) fn unlock(&mut self, key: u64, now_us: i64) {
        for (_, _, until) in self.locked.iter_mut().filter(|(its, ..)| *its == key) {
            *until = Some(now_us);
        }
    }

    /// Records that the server may be unable to work for so long.
    pub(super) fn is_away(&mut self, server: &str, ms: u64, now_us: i64) {
        let until = now_us + ms.cast_signed() * 1_000 + AT_WORK_AGAIN_US;
        self.away.push((server.to_owned(), now_us, until));
    }

    /// Records that the store's clock was set. Entries may be at wrong places until all servers have read the lines again.
    pub(super) fn jump(&mut self, now_us: i64) {
        self.moved.push(now_us);
    }

    /// Since when `server` had worked at `at_us`, with a clock that was not set. `None` if it may have been away.
    fn at_work_since(&self, server: &str, at_us: i64) -> Option<i64> {
        let away = self.away.iter().filter(|(its, ..)| its == server);
        let away = away.map(|(_, from, until)| (*from, *until));
        let moved = self.moved.iter().map(|at| (*at, *at + AT_WORK_AGAIN_US));
        let mut since = i64::MIN;
        for (_, until) in away.chain(moved).filter(|(from, _)| *from <= at_us) {
            since = until.max(since);
            if until >= at_us {
                return None;
            }
        }
        Some(since)
    }

    /// Whether a server may find a row of `ask` locked.
    fn is_locked(&self, ask: &Ask, now_us: i64) -> bool {
        let mut locked = self.locked.iter();
        locked.any(|(_, rows, until)| {
            let may_be = until.is_none_or(|until| now_us < until + FOUND_FREE_US);
            may_be && needs(ask).overlaps(rows)
        })
    }

    /// The call was answered, or its caller went away.
    pub(super) fn end(&mut self, number: u64, granted: Option<&Request>) {
        let waiter = self.waiting.remove(&number);
        if let (Some(waiter), Some(request)) = (waiter, granted) {
            let request = request.clone();
            self.served.push(Served { waiter, request });
        }
    }

    /// Notes which waiters lack a key.
    pub(super) fn observe(&mut self, ledger: &Ledger, now_us: i64) {
        self.commits.entry(ledger.commit).or_insert(now_us);
        let numbers: Vec<u64> = self.waiting.keys().copied().collect();
        for number in numbers {
            let waiter = &self.waiting[&number];
            if !keys::of(&waiter.ask).next().is_some_and(|_| waiter.waits) {
                continue;
            }
            let is_clear = keys::of(&waiter.ask).all(|(key, count)| {
                let mut others = self.waiting.values().filter(|other| other.waits);
                let is_before = |other: &Waiter| other.earliest < waiter.place;
                ledger.room(key) >= count.value()
                    && !others.any(|other| is_before(other) && wants(&other.ask, key))
            });
            let waiter = self.waiting.get_mut(&number);
            waiter.expect("it is there").clear.note(is_clear, now_us);
        }
    }

    /// P10: a waiter that is surely first, and could be served, is served within a second. P11: so is a waiter behind waiters
    /// that lack a key.
    pub(super) fn look(&mut self, ledger: &Ledger, now: Timestamp) -> Check {
        let firsts: Vec<u64> = self.waiting.keys().copied().collect();
        for number in firsts {
            let waiter = &self.waiting[&number];
            let fits = waiter.waits && self.is_first(waiter, ledger, now);
            let fits = fits && waiter.fits(ledger, now);
            let promise = match self.ahead(waiter).next() {
                Some(_) => "P11",
                None => "P10",
            };
            let Some(waiter) = self.waiting.get_mut(&number) else {
                continue;
            };
            waiter.fits = fits.then(|| waiter.fits.unwrap_or(now));
            let for_long = waiter
                .fits
                .map(|since| now.duration_since(since).unsigned_abs());
            ensure(for_long.is_none_or(|long| long <= SOON), promise, || {
                let (server, ask) = (&waiter.server, &waiter.ask);
                format!(
                    "{ask:?} at {server} is the first, there is room since {:?}",
                    waiter.fits
                )
            })?;
        }
        Ok(())
    }

    fn is_first(&self, waiter: &Waiter, ledger: &Ledger, now: Timestamp) -> bool {
        let mut ahead = self.ahead(waiter);
        ahead.all(|other| keys::is_held_back(&other.ask, &waiter.ask, ledger, now))
    }

    /// The waiters that may come before `waiter` on a semaphore that it wants.
    fn ahead(&self, waiter: &Waiter) -> impl Iterator<Item = &Waiter> {
        let others = self.waiting.values();
        let others = others.filter(move |other| other.place != waiter.place && other.waits);
        others.filter(move |other| other.earliest <= waiter.place && share(&waiter.ask, &other.ask))
    }

    /// P11: of two asks for one semaphore, the first has the lower fence, if it waited. Between servers that holds unless the asks
    /// came at about the same time, or the first one's server was in trouble. A waiter that waited through trouble counts as if
    /// it had come when its server worked again.
    pub(super) fn check_order(&self, ledger: &Ledger, is_quiet: bool) -> Check {
        let waited = |served: &&Served| served.waiter.waits && !served.waiter.met_lock;
        for first in self.served.iter().filter(waited) {
            if !first.could_always_be_served(ledger) {
                continue;
            }
            for later in self.served.iter().filter(|later| later.waiter.is_new) {
                let commit = ledger.grants.get(&later.request.external_id);
                let Some(at) = commit.and_then(|grant| self.commits.get(&grant.granted)) else {
                    continue;
                };
                let overtakes = later.overtakes(first, ledger, *at, is_quiet)
                    && self.comes_first(first, later, *at);
                ensure(!overtakes, "P11", || {
                    format!("{:?} was served before {:?}", later, first)
                })?;
            }
        }
        Ok(())
    }

    /// Whether `first` surely comes before `later`, which was granted at `at_us`.
    fn comes_first(&self, first: &Served, later: &Served, at_us: i64) -> bool {
        let (its, others) = (&first.waiter, &later.waiter);
        if its.server == others.server {
            return its.place.1 < others.place.1 && its.place < others.place;
        }
        let Some(since) = self.at_work_since(&its.server, at_us) else {
            return false;
        };
        let late_us = since.saturating_sub(its.came_us).max(0);
        others.place.0 - its.place.0 - late_us > OVERTAKES_US
            && at_us - its.came_us - late_us > OVERTAKES_US
    }
}

impl Waiter {
    fn fits(&self, ledger: &Ledger, now: Timestamp) -> bool {
        let mut permits = self.ask.permits();
        permits.all(|(name, count)| ledger.room_without_lapsed(name, now) >= count.value())
    }
}

impl Served {
    /// Whether the waiter could have been served at all times.
    fn could_always_be_served(&self, ledger: &Ledger) -> bool {
        let since = self.waiter.since;
        let until = ledger.grants.get(&self.request.external_id);
        let until = until.map_or(since, |grant| grant.granted);
        let mut permits = self.request.permits.iter();
        permits.all(|p| {
            ledger
                .pools
                .could_always_give(&p.semaphore, p.count.value(), since..=until)
        })
    }

    /// Whether this waiter was granted, at `at_us`, permits that `first` had reserved.
    fn overtakes(&self, first: &Served, ledger: &Ledger, at_us: i64, is_quiet: bool) -> bool {
        let grant = ledger.grants.get(&self.request.external_id);
        let granted = grant.map_or(0, |grant| grant.granted);
        let has_line = |name: &SemaphoreName| {
            self.waiter.server == first.waiter.server
                || ledger
                    .pools
                    .was_always_there(name, first.waiter.since, granted)
        };
        self.request.permits.iter().any(|permit| {
            let name = &permit.semaphore;
            let mut its = first.request.permits.iter();
            let is_before = its.any(|its| its.semaphore == *name && permit.fence < its.fence);
            is_before
                && has_line(name)
                && (keys::always_reserves(&first.waiter.ask, name)
                    || is_quiet && first.waiter.clear.was_long(at_us))
        })
    }
}

fn needs(ask: &Ask) -> Footprint {
    Footprint {
        semaphores: ask.permits().map(|(name, _)| name.clone()).collect(),
        requests: [ask.external_id.clone()].into(),
        ..Footprint::default()
    }
}

fn share(one: &Ask, other: &Ask) -> bool {
    one.permits().any(|(name, _)| wants(other, name))
}

fn wants(ask: &Ask, name: &SemaphoreName) -> bool {
    ask.permits().any(|(its, _)| its == name)
}
