//! Commands that are blocked: they need a row which another transaction keeps locked (P13).
//!
//! When a lock wait of a batch times out, the batch drops the commands that need a locked row and
//! goes on with the others. Later commands that need such a row are blocked at once. A blocked
//! command stands in no line, so nobody waits behind it. It keeps its sequence number, so that it is
//! back in its order once its rows are free.
//!
//! One poll of the store reads the rows of all blocked commands, however many there are. A poll can
//! miss a row that many processes use in turn and that is seldom free. So the engine also waits for
//! such semaphores in the database's own lock queue, a few at a time, with the commands that need
//! nothing else. If it gets one, no transaction keeps that semaphore: others only use it in turn. For the next
//! 10 s the engine sends batches on it without a look whether it is locked. No poll sees a locked
//! [gap](Gap) between two rows, in which no row can be made, so the engine waits for gaps too.
//!
//! For a moment, a poll locks the rows that it finds free. So hundreds of processes that poll one
//! semaphore would keep it locked. Therefore a semaphore is polled less often the longer it has
//! been locked, and seldom where no command waits for it. An ask with a wait, for which a plain
//! read finds no room, is not blocked at all: it [waits in line](super::waiting).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use lockhouse_core::{ExternalId, Footprint, Gap, Owner, SemaphoreName};
use tokio::time::Instant;

use super::queue::{Queued, Sequence};

/// After a semaphore was locked for this long, the engine waits for it in the database's lock
/// queue.
const POLLED_FOR: Duration = Duration::from_millis(500);

/// A locked row that no command has needed for this long is forgotten.
const REMEMBERED_FOR: Duration = Duration::from_secs(30);

/// For this long after the engine got a semaphore from the database's lock queue, the engine assumes
/// that other transactions use it in turn.
const IN_TURN_FOR: Duration = Duration::from_secs(10);

/// A semaphore is polled after this fraction of the time for which it has been locked, and at least
/// this often.
const FRACTION: u32 = 4;
const SLOWEST: Duration = Duration::from_secs(1);

/// The engine waits for at most `MOST_WAITS` semaphores in the database's lock queue at once, and for at most one for each
/// `CONNECTIONS_A_WAIT` connections of the store.
const MOST_WAITS: usize = 3;
const CONNECTIONS_A_WAIT: usize = 4;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Row {
    Semaphore(SemaphoreName),
    Request(ExternalId),
    Session(Owner),
    /// Between two rows.
    Gap(Gap),
}

/// A row or a gap to wait for in the database's own lock queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AwaitedLock {
    Semaphore(SemaphoreName),
    Gap(Gap),
}

#[derive(Debug)]
struct Locked {
    since: Instant,
    /// When it was last polled.
    polled: Instant,
    /// When it was found locked, or when the engine last waited for it in the database's lock
    /// queue.
    waited_for: Instant,
    /// When a command was last blocked by it.
    needed: Instant,
}

#[derive(Debug)]
pub(super) struct Blocked {
    /// The time of the event that is handled.
    now: Instant,
    rows: BTreeMap<Row, Locked>,
    /// Each command with the rows that it waits for.
    commands: BTreeMap<Sequence, (Queued, BTreeSet<Row>)>,
    /// The semaphores that the engine waits for in the database's lock queue, and how many these may be. They are not polled.
    waits: BTreeSet<SemaphoreName>,
    most_waits: usize,
    /// Whether the engine waits for a gap.
    waits_for_gap: bool,
    /// The waits that were chosen and have not begun.
    chosen: VecDeque<AwaitedLock>,
    /// The semaphores that others use in turn, and when the engine last found that.
    in_turn: BTreeMap<SemaphoreName, Instant>,
}

impl Blocked {
    /// No blocked commands, for a store with at most `connections` connections.
    pub(super) fn new(connections: usize, now: Instant) -> Self {
        Self {
            now,
            rows: BTreeMap::new(),
            commands: BTreeMap::new(),
            waits: BTreeSet::new(),
            most_waits: most_waits(connections),
            waits_for_gap: false,
            chosen: VecDeque::new(),
            in_turn: BTreeMap::new(),
        }
    }

    /// Sets the time of the next events.
    pub(super) fn at(&mut self, now: Instant) {
        self.now = now;
    }

    /// How many commands are blocked.
    pub(super) fn len(&self) -> usize {
        self.commands.len()
    }

    /// Whether no row is known to be locked.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The locked rows that are to be polled now.
    pub(super) fn rows_to_poll(&mut self) -> Footprint {
        let now = self.now;
        let waited_for: BTreeSet<_> = waited_for(&self.commands).collect();
        let mut footprint = Footprint::default();
        for (row, locked) in &mut self.rows {
            let pause = match (row, waited_for.contains(row)) {
                // The engine waits for it.
                (Row::Gap(_), _) => continue,
                (Row::Semaphore(name), _) if self.waits.contains(name) => continue,
                (_, false) => SLOWEST,
                (Row::Semaphore(_), true) => {
                    (now.duration_since(locked.since) / FRACTION).min(SLOWEST)
                }
                (Row::Request(_) | Row::Session(_), true) => Duration::ZERO,
            };
            if now.duration_since(locked.polled) < pause {
                continue;
            }
            locked.polled = now;
            match row {
                Row::Semaphore(name) => drop(footprint.semaphores.insert(name.clone())),
                Row::Request(id) => drop(footprint.requests.insert(id.clone())),
                Row::Session(owner) => drop(footprint.owners.insert(owner.clone())),
                Row::Gap(_) => {}
            }
        }
        footprint
    }

    /// Whether `queued` needs a row that is known to be locked.
    pub(super) fn concerns(&self, queued: &Queued) -> bool {
        !self.rows.is_empty() && self.needed_by(queued).next().is_some()
    }

    /// The locked rows that `queued` names, and the locked gaps in which it may have to make a row.
    fn needed_by(&self, queued: &Queued) -> impl Iterator<Item = Row> {
        let named: Vec<_> = rows(&queued.needs()).collect();
        let named = named.into_iter().filter(|row| self.rows.contains_key(row));
        let gaps = self.rows.keys().filter(|row| match row {
            Row::Gap(gap) => queued.may_fill(gap),
            _ => false,
        });
        named.chain(gaps.cloned())
    }

    /// Blocks `queued` until the locked rows that it names, and the rows of `also`, are free.
    pub(super) fn add(&mut self, queued: Queued, also: &Footprint) {
        let mut waits_for: BTreeSet<Row> = rows(also).collect();
        waits_for.extend(self.needed_by(&queued));
        let now = self.now;
        for row in &waits_for {
            if let Some(locked) = self.rows.get_mut(row) {
                locked.needed = now;
            }
        }
        self.commands.insert(queued.sequence, (queued, waits_for));
    }

    /// Records that the rows `locked` are locked.
    pub(super) fn lock(&mut self, locked: &Footprint) {
        self.forget_old();
        let now = self.now;
        for row in rows(locked) {
            // A poll would seldom find it free.
            let waited_for = match &row {
                Row::Semaphore(name) if self.in_turn.contains_key(name) => {
                    now.checked_sub(POLLED_FOR)
                }
                _ => None,
            };
            self.rows.entry(row).or_insert(Locked {
                since: now,
                polled: now,
                waited_for: waited_for.unwrap_or(now),
                needed: now,
            });
        }
    }

    fn forget_old(&mut self) {
        let now = self.now;
        let is_new = |found: Instant| now.duration_since(found) < IN_TURN_FOR;
        self.in_turn.retain(|_, found| is_new(*found));
    }

    /// Records that the engine got `name` from the database's lock queue, so that others use it in
    /// turn. Returns the commands that wait for no other row.
    pub(super) fn unlock_in_turn(&mut self, name: SemaphoreName) -> Vec<Queued> {
        let free = Footprint {
            semaphores: [name.clone()].into(),
            ..Footprint::default()
        };
        self.forget_old();
        self.in_turn.insert(name, self.now);
        self.unlock(&free, &Footprint::default())
    }

    /// The rows of `footprint` for which a batch asks whether they are locked. A semaphore that
    /// others use in turn looks locked though nobody keeps it.
    pub(super) fn worth_a_look(&mut self, footprint: &Footprint) -> Footprint {
        self.forget_old();
        let mut footprint = footprint.clone();
        let is_kept = |name: &SemaphoreName| !self.in_turn.contains_key(name);
        footprint.semaphores.retain(is_kept);
        footprint
    }

    /// Records that of the rows `looked_at` only `locked` are still locked. Returns the commands
    /// that wait for no other row.
    pub(super) fn unlock(&mut self, looked_at: &Footprint, locked: &Footprint) -> Vec<Queued> {
        let locked: BTreeSet<Row> = rows(locked).collect();
        let free: BTreeSet<Row> = rows(looked_at)
            .filter(|row| !locked.contains(row))
            .collect();
        let now = self.now;
        self.rows.retain(|row, locked| {
            !free.contains(row) && now.duration_since(locked.needed) < REMEMBERED_FOR
        });
        for (_, waits_for) in self.commands.values_mut() {
            waits_for.retain(|row| self.rows.contains_key(row));
        }
        self.take_if(|_, waits_for| waits_for.is_empty())
    }

    /// Removes and returns the first commands, at most `most`, that touch `name` alone, wait for no
    /// other row, and `may_wait`. They overtake no command that touches other semaphores too and waits
    /// for this row alone.
    pub(super) fn take_for(
        &mut self,
        name: &SemaphoreName,
        most: usize,
        may_wait: impl Fn(&Queued) -> bool,
    ) -> Vec<Queued> {
        let row = Row::Semaphore(name.clone());
        let mut left = most;
        self.take_if(|queued, waits_for| {
            if !waits_for.iter().eq([&row]) {
                return false;
            }
            let is_for_it = queued.touches == [name.clone()];
            if !is_for_it && queued.touches.contains(name) {
                left = 0;
            }
            let goes = is_for_it && left > 0 && may_wait(queued);
            left -= usize::from(goes);
            goes
        })
    }

    /// Removes and returns the commands for which `is_over` is true.
    pub(super) fn give_up(&mut self, mut is_over: impl FnMut(&Queued) -> bool) -> Vec<Queued> {
        self.take_if(|queued, _| is_over(queued))
    }

    fn take_if(&mut self, mut goes: impl FnMut(&Queued, &BTreeSet<Row>) -> bool) -> Vec<Queued> {
        let taken = self
            .commands
            .extract_if(.., |_, (queued, waits_for)| goes(queued, waits_for));
        taken.map(|(_, (queued, _))| queued).collect()
    }

    /// Chooses what to wait for in the database's lock queue, if a wait is free.
    pub(super) fn choose_waits(&mut self) {
        while self.waits.len() < self.most_waits
            && let Some(name) = self.semaphore_to_wait_for()
        {
            self.waits.insert(name.clone());
            self.chosen.push_back(AwaitedLock::Semaphore(name));
        }
        if !self.waits_for_gap
            && let Some(gap) = self.gap_to_wait_for()
        {
            self.waits_for_gap = true;
            self.chosen.push_back(AwaitedLock::Gap(gap));
        }
    }

    /// The next of the chosen waits. It lasts until [`end_wait`](Self::end_wait).
    pub(super) fn next_wait(&mut self) -> Option<AwaitedLock> {
        self.chosen.pop_front()
    }

    /// Records that the engine no longer waits for this in the database's lock queue.
    pub(super) fn end_wait(&mut self, wait: &AwaitedLock) {
        match wait {
            AwaitedLock::Semaphore(name) => drop(self.waits.remove(name)),
            AwaitedLock::Gap(_) => self.waits_for_gap = false,
        }
    }

    /// The semaphore to wait for next, if commands wait for one that has been locked for long.
    fn semaphore_to_wait_for(&mut self) -> Option<SemaphoreName> {
        let now = self.now;
        let waited_for: BTreeSet<_> = waited_for(&self.commands).collect();
        let semaphores = self.rows.iter_mut().filter_map(|(row, locked)| match row {
            Row::Semaphore(name) if waited_for.contains(row) && !self.waits.contains(name) => {
                Some((name, locked))
            }
            _ => None,
        });
        let (name, locked) = semaphores.min_by_key(|(_, locked)| locked.waited_for)?;
        if now.duration_since(locked.waited_for) < POLLED_FOR {
            return None;
        }
        locked.waited_for = now;
        Some(name.clone())
    }

    /// The gap to wait for next. No poll sees gaps. One that no command waits for is looked at
    /// seldom.
    fn gap_to_wait_for(&mut self) -> Option<Gap> {
        let now = self.now;
        let waited_for: BTreeSet<_> = waited_for(&self.commands).collect();
        let gaps = self.rows.iter_mut().filter_map(|(row, locked)| {
            let Row::Gap(gap) = row else { return None };
            let is_due = waited_for.contains(row) || now - locked.waited_for >= SLOWEST;
            is_due.then_some((gap, locked))
        });
        let (gap, locked) = gaps.min_by_key(|(_, locked)| locked.waited_for)?;
        locked.waited_for = now;
        Some(gap.clone())
    }
}

/// How many waits in the database's own lock queue leave most of these connections to others.
fn most_waits(connections: usize) -> usize {
    (connections / CONNECTIONS_A_WAIT).clamp(1, MOST_WAITS)
}

/// The rows that commands wait for.
fn waited_for(
    commands: &BTreeMap<Sequence, (Queued, BTreeSet<Row>)>,
) -> impl Iterator<Item = &Row> {
    commands.values().flat_map(|(_, rows)| rows)
}

fn rows(footprint: &Footprint) -> impl Iterator<Item = Row> {
    let semaphores = footprint.semaphores.iter().cloned().map(Row::Semaphore);
    let requests = footprint.requests.iter().cloned().map(Row::Request);
    let sessions = footprint.owners.iter().cloned().map(Row::Session);
    let gaps = footprint.gaps.iter().cloned().map(Row::Gap);
    semaphores.chain(requests).chain(sessions).chain(gaps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_for_locks_leave_most_connections_to_others() {
        let waits = [2, 4, 8, 16, 1_000].map(most_waits);
        assert_eq!(waits, [1, 1, 2, 3, 3]);
    }
}
