//! Commands that are blocked: they need a row which another transaction keeps locked (P13).
//!
//! When a lock wait of a batch times out, the batch takes those of its commands out that need a locked row, and goes on
//! with the others. Later commands that need such a row are blocked at once. A blocked command stands in no line, so nobody
//! waits behind it. It keeps its sequence number, so that it is back in its order once its rows are free.
//!
//! One poll of the store looks at the rows of all of them, however many they are. A poll can miss a row that many processes
//! use in turn and that is seldom free, so a semaphore is waited for in the database's own queue as well, one at a time.
//!
//! A poll locks the rows that it finds free for a moment, so that hundreds of processes that poll one semaphore keep it
//! locked. So a semaphore is polled less often the longer it has been locked, and seldom where no command waits for it. An
//! ask that waits, and that a plain read finds no room for, is not blocked at all: it [waits in line](super::waiting).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lockhouse_core::{ExternalId, Footprint, Owner, SemaphoreName};
use tokio::time::Instant;

use super::queue::{Queued, Ticket};

/// A semaphore that was locked for so long is waited for in the database's queue.
const POLLED_FOR: Duration = Duration::from_millis(500);

/// A locked row that no command has needed for so long is forgotten.
const REMEMBERED_FOR: Duration = Duration::from_secs(30);

/// A semaphore is polled after a quarter of the time for which it has been locked, and at least so often.
const LOOKS: u32 = 4;
const SLOWEST: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Row {
    Semaphore(SemaphoreName),
    Request(ExternalId),
    Session(Owner),
    /// Any of them. A command needs all, and names none.
    Template,
}

#[derive(Debug)]
struct Locked {
    since: Instant,
    /// When it was last polled.
    polled: Instant,
    /// When it was found locked, or last waited for in the database's queue.
    waited_for: Instant,
    /// When a command was last set aside for it.
    needed: Instant,
}

#[derive(Debug, Default)]
pub(super) struct Blocked {
    rows: BTreeMap<Row, Locked>,
    /// Each with the rows that it waits for.
    commands: BTreeMap<Ticket, (Queued, BTreeSet<Row>)>,
}

impl Blocked {
    /// How many commands are set aside.
    pub(super) fn len(&self) -> usize {
        self.commands.len()
    }

    /// Whether no row is known to be locked.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Whether a template is known to be locked.
    pub(super) fn has_template(&self) -> bool {
        self.rows.contains_key(&Row::Template)
    }

    /// The locked rows that are to be polled now.
    pub(super) fn rows_to_poll(&mut self) -> Footprint {
        let now = Instant::now();
        let waited_for: BTreeSet<_> = waited_for(&self.commands).collect();
        let mut footprint = Footprint::default();
        for (row, locked) in &mut self.rows {
            let pause = match (row, waited_for.contains(row)) {
                (_, false) => SLOWEST,
                (Row::Semaphore(_), true) => {
                    (now.duration_since(locked.since) / LOOKS).min(SLOWEST)
                }
                (Row::Request(_) | Row::Session(_) | Row::Template, true) => Duration::ZERO,
            };
            if now.duration_since(locked.polled) < pause {
                continue;
            }
            locked.polled = now;
            match row {
                Row::Semaphore(name) => drop(footprint.semaphores.insert(name.clone())),
                Row::Request(id) => drop(footprint.requests.insert(id.clone())),
                Row::Session(owner) => drop(footprint.owners.insert(owner.clone())),
                Row::Template => footprint.templates = true,
            }
        }
        footprint
    }

    /// Whether `queued` names a row that is known to be locked.
    pub(super) fn concerns(&self, queued: &Queued) -> bool {
        !self.rows.is_empty() && rows(&queued.needs()).any(|row| self.rows.contains_key(&row))
    }

    /// Sets `queued` aside until those of the rows that it names, and `also`, are free.
    pub(super) fn add(&mut self, queued: Queued, also: &Footprint) {
        let mut waits_for: BTreeSet<Row> = rows(also).collect();
        waits_for.extend(rows(&queued.needs()).filter(|row| self.rows.contains_key(row)));
        let now = Instant::now();
        for row in &waits_for {
            if let Some(locked) = self.rows.get_mut(row) {
                locked.needed = now;
            }
        }
        self.commands.insert(queued.ticket, (queued, waits_for));
    }

    /// Takes note that `locked` are locked.
    pub(super) fn lock(&mut self, locked: &Footprint) {
        let now = Instant::now();
        for row in rows(locked) {
            self.rows.entry(row).or_insert(Locked {
                since: now,
                polled: now,
                waited_for: now,
                needed: now,
            });
        }
    }

    /// Takes note that of the rows of `looked_at` only `locked` still are; gives back the commands that
    /// wait for no other row.
    pub(super) fn unlock(&mut self, looked_at: &Footprint, locked: &Footprint) -> Vec<Queued> {
        let locked: BTreeSet<Row> = rows(locked).collect();
        let free: BTreeSet<Row> = rows(looked_at)
            .filter(|row| !locked.contains(row))
            .collect();
        let now = Instant::now();
        self.rows.retain(|row, locked| {
            !free.contains(row) && now.duration_since(locked.needed) < REMEMBERED_FOR
        });
        for (_, waits_for) in self.commands.values_mut() {
            waits_for.retain(|row| self.rows.contains_key(row));
        }
        self.take_if(|_, waits_for| waits_for.is_empty())
    }

    /// Takes those out for which `is_over` says so.
    pub(super) fn give_up(&mut self, mut is_over: impl FnMut(&Queued) -> bool) -> Vec<Queued> {
        self.take_if(|queued, _| is_over(queued))
    }

    fn take_if(&mut self, mut goes: impl FnMut(&Queued, &BTreeSet<Row>) -> bool) -> Vec<Queued> {
        let taken = self
            .commands
            .extract_if(.., |_, (queued, waits_for)| goes(queued, waits_for));
        taken.map(|(_, (queued, _))| queued).collect()
    }

    /// The semaphore to wait for next in the database's queue, if commands wait for one that has been locked for long.
    pub(super) fn next_to_wait_for(&mut self) -> Option<SemaphoreName> {
        let now = Instant::now();
        let waited_for: BTreeSet<_> = waited_for(&self.commands).collect();
        let semaphores = self.rows.iter_mut().filter_map(|(row, locked)| match row {
            Row::Semaphore(name) if waited_for.contains(row) => Some((name, locked)),
            _ => None,
        });
        let (name, locked) = semaphores.min_by_key(|(_, locked)| locked.waited_for)?;
        if now.duration_since(locked.waited_for) < POLLED_FOR {
            return None;
        }
        locked.waited_for = now;
        Some(name.clone())
    }
}

/// The rows that commands wait for.
fn waited_for(commands: &BTreeMap<Ticket, (Queued, BTreeSet<Row>)>) -> impl Iterator<Item = &Row> {
    commands.values().flat_map(|(_, rows)| rows)
}

fn rows(footprint: &Footprint) -> impl Iterator<Item = Row> {
    let semaphores = footprint.semaphores.iter().cloned().map(Row::Semaphore);
    let requests = footprint.requests.iter().cloned().map(Row::Request);
    let sessions = footprint.owners.iter().cloned().map(Row::Session);
    let template = footprint.templates.then_some(Row::Template);
    semaphores.chain(requests).chain(sessions).chain(template)
}
