//! The line for one semaphore over all processes that use the store (P11).
//!
//! The waiters of a process stand in a line in its memory. The heads of those lines stand in a [`Line`], which the
//! store keeps in the semaphore's row: every grant and every release writes that row anyway. An entry says which
//! process it is of, where its first waiter stands, and when the process was last heard of.
//!
//! - **Place.** A waiter's place is the time at which it came, moved by its priority. Places are told in the line's own
//!   [time](LineTime), which goes on evenly when the store's clock is set.
//! - **Admission.** An ask is granted if no other process has an entry more than [`WINDOW`] ahead of it. Within the
//!   window a process serves its own waiters first, so that a release and the next grant share a commit. An ask that does
//!   not wait has no window.
//! - **Silence.** Free permits are left to the processes ahead, for 700 ms with one ahead, and 500 ms more each time that
//!   their number doubles. Then those processes are passed over: the commit that grants removes their entries. A process
//!   that lives registers again, at its old place.
//! - A process at the head that cannot use the free permits says so, which starts that time anew: its first waiter
//!   asks for more, or lacks another semaphore.
//!
//! The line holds at most [`MAX_LINE`] entries. The last ones are left out, and register at their old places when there is
//! room.

mod text;
mod time;

#[cfg(test)]
mod tests;

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;
use std::time::Duration;

use crate::{Capacity, Count, Timestamp};

use time::Clock;
pub use time::{LineTime, Seniority};

/// How far ahead of another process's waiters an ask may be granted that came later.
pub const WINDOW: Duration = Duration::from_millis(250);

/// The most entries of a line.
pub const MAX_LINE: usize = 250;

/// The longest text of a line, in bytes. A store's column has at least as many; MySQL's has 21,000.
pub const MAX_LINE_BYTES: usize = 64 + MAX_LINE * (2 * 20 + 16 + 2 * 10 + 5);

/// How long free permits are left to one process ahead, and how much longer for each time that their number doubles.
const LEFT_FOR: Duration = Duration::from_millis(700);
const LEFT_LONGER: Duration = Duration::from_millis(500);

/// The entry of a process that was not heard of for so long does not count.
pub const HEARD_FOR: Duration = Duration::from_secs(60);

/// A process that uses the store: one engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(u64);

impl ProcessId {
    /// The process of a random `number`. 0 is no process.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }
}

impl FromStr for ProcessId {
    type Err = ParseIntError;

    /// As it is displayed: 16 hexadecimal digits.
    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        u64::from_str_radix(text, 16).map(Self)
    }
}

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// What a process says of its waiters on one semaphore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// How long its first waiter has waited, with its priority.
    pub seniority: Seniority,
    /// How many permits that waiter asks for.
    pub count: Count,
    /// How many wait there.
    pub waiting: u32,
}

impl Standing {
    /// That of both together.
    pub(crate) fn and(self, other: Self) -> Self {
        let first = match other.seniority > self.seniority {
            true => other,
            false => self,
        };
        Self {
            waiting: self.waiting.saturating_add(other.waiting),
            ..first
        }
    }
}

/// The first waiter of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where the waiter stands.
    pub place: LineTime,
    /// Its process.
    pub process: ProcessId,
    /// When the process last wrote the entry.
    pub heard: LineTime,
    /// How many permits the waiter asks for.
    pub count: u32,
    /// How many wait at that process.
    pub waiting: u32,
}

/// An ask's claim to be granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The process that asks.
    pub process: ProcessId,
    /// How long it has waited, with its priority.
    pub seniority: Seniority,
    /// Whether it waits if it is refused.
    pub waits: bool,
}

/// Whether an ask may be granted, as far as the line goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// At once.
    Now,
    /// Not before that time, when the processes ahead are passed over if they do not come.
    At(LineTime),
}

/// The heads of the lines of all processes, on one semaphore.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// In order of their places.
    entries: Vec<Entry>,
    clock: Clock,
    /// Since when permits are free that are left to the first.
    idle_since: Option<LineTime>,
}

impl Line {
    /// Whether no process stands in it.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether somebody waits in it when the store's clock shows `now`, as far as it is known. This does not use the line's own
    /// time, which stands still after a pause: the line takes a pause of days for a clock that was set ahead.
    pub(crate) fn is_waited_in(&self, now: Timestamp) -> bool {
        let shown = self.clock.shown(now);
        self.entries.iter().any(|entry| entry.is_live(shown))
    }

    /// Who stands in it, first to last.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Since when permits are free that are left to the first.
    pub fn idle_since(&self) -> Option<LineTime> {
        self.idle_since
    }

    /// The line's time when the store's clock shows `now`.
    pub fn time(&self, now: Timestamp) -> LineTime {
        match self.clock == Clock::default() {
            true => LineTime::of(now),
            false => self.clock.at(now).latest,
        }
    }

    /// The line's time when it was last saved.
    pub fn saved_at(&self) -> LineTime {
        self.clock.latest
    }

    /// The entry of `process`.
    pub fn entry(&self, process: ProcessId) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.process == process)
    }

    /// How many wait at the processes other than `process` that were heard of lately when the line was last saved.
    pub fn waiting_elsewhere(&self, process: ProcessId) -> u32 {
        let others = self.entries.iter().filter(|entry| entry.process != process);
        let live = others.filter(|entry| entry.is_live(self.clock.latest));
        live.fold(0, |sum, entry| sum.saturating_add(entry.waiting))
    }

    /// The first who could be granted something of a semaphore of `capacity`.
    pub fn first(&self, capacity: Capacity, at: LineTime) -> Option<&Entry> {
        let mut entries = self.entries.iter();
        entries.find(|entry| entry.counts(capacity, at))
    }

    /// How many processes other than `process` stand ahead of `place`, window or not.
    pub fn rank(
        &self,
        process: ProcessId,
        place: LineTime,
        capacity: Capacity,
        at: LineTime,
    ) -> usize {
        self.ahead(process, place, capacity, at).count()
    }

    /// Whether the line lets `claim` be granted at `at`.
    pub fn admission(&self, claim: &Claim, capacity: Capacity, at: LineTime) -> Admission {
        let before = claim.before(at);
        let ahead = self.ahead(claim.process, before, capacity, at).count();
        if ahead == 0 {
            return Admission::Now;
        }
        let doubled = usize::BITS - (ahead - 1).leading_zeros();
        let passed = self.idle_since.unwrap_or(at).min(at) + LEFT_FOR + LEFT_LONGER * doubled;
        match passed <= at {
            true => Admission::Now,
            false => Admission::At(passed),
        }
    }

    /// Removes those who were passed over when `claim` was granted.
    pub(crate) fn pass_over(&mut self, claim: &Claim, capacity: Capacity, at: LineTime) {
        let before = claim.before(at);
        self.entries.retain(|entry| {
            entry.process == claim.process || entry.place >= before || !entry.counts(capacity, at)
        });
    }

    /// `process` stands there as it says; without a standing nobody waits at it.
    pub(crate) fn stand(&mut self, process: ProcessId, standing: Option<Standing>, at: LineTime) {
        self.entries.retain(|entry| entry.process != process);
        let Some(standing) = standing else {
            return;
        };
        let entry = Entry {
            place: at.place(standing.seniority),
            process,
            heard: at,
            count: standing.count.value(),
            waiting: standing.waiting,
        };
        let index = self
            .entries
            .partition_point(|other| (other.place, other.process) < (entry.place, process));
        self.entries.insert(index, entry);
    }

    /// Brings it to how it is saved at `now`, with so much room left. `is_anew` where the permits are left to
    /// the first from now on, whenever they came free.
    pub(crate) fn settle(&mut self, available: u32, is_anew: bool, now: Timestamp) {
        if self.is_empty() {
            *self = Self::default();
            return;
        }
        self.clock = match self.clock == Clock::default() {
            true => Clock::starting(now),
            false => self.clock.at(now),
        };
        let at = self.clock.latest;
        self.entries.retain_mut(|entry| {
            entry.heard = entry.heard.min(at);
            entry.is_live(at)
        });
        self.entries.truncate(MAX_LINE);
        self.idle_since = match available {
            0 => None,
            _ => self.idle_since.filter(|_| !is_anew).or(Some(at)),
        };
        if self.is_empty() {
            *self = Self::default();
        }
    }

    /// The live entries of other processes before `place`.
    fn ahead(
        &self,
        process: ProcessId,
        place: LineTime,
        capacity: Capacity,
        at: LineTime,
    ) -> impl Iterator<Item = &Entry> {
        let before = self
            .entries
            .iter()
            .take_while(move |entry| entry.place < place);
        before.filter(move |entry| entry.process != process && entry.counts(capacity, at))
    }
}

impl Entry {
    fn is_live(&self, at: LineTime) -> bool {
        at.since(self.heard) <= HEARD_FOR
    }

    /// An entry that asks for more than there is at all keeps nobody waiting.
    fn counts(&self, capacity: Capacity, at: LineTime) -> bool {
        self.count <= capacity.value() && self.is_live(at)
    }
}

impl Claim {
    /// Those before this place come first.
    fn before(&self, at: LineTime) -> LineTime {
        let place = at.place(self.seniority);
        match self.waits {
            true => place - WINDOW,
            false => place,
        }
    }
}
