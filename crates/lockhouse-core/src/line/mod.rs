//! The line for one semaphore over all processes that use the store (P11).
//!
//! Each process keeps its waiters in a line in memory. The store keeps the heads of those lines in
//! a [`Line`] in the semaphore's row, which every grant and every release writes anyway. An entry
//! has the process, the place of its first waiter, and when the process last wrote it.
//!
//! - **Place.** A waiter's place is its time of arrival, moved by its priority: a [`LineTime`]. The line's time goes on
//!   evenly when the store's clock is set.
//! - **Admission.** An ask is granted if no other process has an entry more than [`WINDOW`] ahead
//!   of it. Within the window a process serves its own waiters first, so that a release and the
//!   next grant share a commit. The promise (P11) is 500 ms, which leaves 250 ms for an entry that
//!   waits for a connection or a lock before it is saved. An ask without a wait has no window.
//! - **Silence.** Free permits are left to the processes ahead: for 700 ms with one ahead, and 500
//!   ms more each time that their number doubles. After that those processes are passed over: the
//!   commit that grants removes their entries. A process that is alive registers again, at its old
//!   place.
//! - A process at the head may be unable to use the free permits, since its first waiter asks for
//!   more or lacks another semaphore. It says so in the line, which starts that time again.
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

/// By how much a later ask of one process may be granted ahead of another process's waiters (P11).
///
/// [`Line::admission`] applies it, by the [`Claim`] of the ask: an ask that does not wait has no window.
pub const WINDOW: Duration = Duration::from_millis(250);

/// The most entries of a line.
pub const MAX_LINE: usize = 250;

/// The longest text of a line, in bytes. A store's column holds at least as many; MySQL's holds
/// 21,000.
pub const MAX_LINE_BYTES: usize = 64 + MAX_LINE * (2 * 20 + 16 + 2 * 10 + 5);

/// How long free permits are left to one process ahead, and how much longer each time that the
/// number of processes ahead doubles.
const LEFT_FOR: Duration = Duration::from_millis(700);
const LEFT_LONGER: Duration = Duration::from_millis(500);

/// An entry that its process has not written for this long does not count.
pub const HEARD_FOR: Duration = Duration::from_secs(60);

/// A process that uses the store: one engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(u64);

impl ProcessId {
    /// No process: a command that carries it has no waiters, and only reads the line.
    pub const NOBODY: Self = Self(0);

    /// The process of a random `number`, which is not 0.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }
}

impl FromStr for ProcessId {
    type Err = ParseIntError;

    /// Parses the displayed form: 16 hexadecimal digits.
    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        u64::from_str_radix(text, 16).map(Self)
    }
}

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The waiters of one process on one semaphore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// How long its first waiter has waited, with its priority.
    pub seniority: Seniority,
    /// How many permits that waiter asks for.
    pub count: Count,
    /// How many waiters the process has.
    pub waiting: u32,
}

impl Standing {
    /// The waiters of both: the first is the one with the greater seniority.
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

/// The entry of a process in a line: its first waiter, and how many wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The place of the waiter.
    pub place: LineTime,
    /// The process.
    pub process: ProcessId,
    /// When the process last wrote the entry.
    pub heard: LineTime,
    /// How many permits the waiter asks for.
    pub count: u32,
    /// How many waiters the process has.
    pub waiting: u32,
}

/// An ask's claim to be granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The process that asks.
    pub process: ProcessId,
    /// How long the ask has waited, with its priority.
    pub seniority: Seniority,
    /// Whether the ask waits if it is refused.
    pub waits: bool,
}

/// Whether the line lets an ask be granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// At once.
    Now,
    /// Not before this time. If the processes ahead have not used the free permits by then, they
    /// are passed over.
    At(LineTime),
}

/// The heads of the lines of all processes, on one semaphore.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// In order of their places.
    entries: Vec<Entry>,
    clock: Clock,
    /// Since when free permits have been left to the first.
    idle_since: Option<LineTime>,
}

impl Line {
    /// Whether no process stands in it.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether the line has a live entry when the store's clock shows `now`.
    ///
    /// It does not use the line's own time. That takes a pause of days for a clock that was set ahead, and so
    /// stands still: an entry of a dead process would count as live for ever.
    pub(crate) fn is_waited_in(&self, now: Timestamp) -> bool {
        let shown = self.clock.shown(now);
        self.entries.iter().any(|entry| entry.is_live(shown))
    }

    /// Whether no process has written it since the store's clock showed `then`.
    pub(crate) fn is_unwritten_since(&self, then: Timestamp) -> bool {
        self.clock.latest <= self.clock.shown(then)
    }

    /// The entries, first to last.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Since when free permits have been left to the first.
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

    /// How many waiters the processes other than `process` have. Counts the entries that were live
    /// when the line was last saved.
    pub fn waiting_elsewhere(&self, process: ProcessId) -> u32 {
        let at = self.clock.latest;
        self.waiting_at(|entry| entry.process != process && entry.is_live(at))
    }

    /// [`waiting_elsewhere`](Self::waiting_elsewhere) at `now`, by the store's clock. It counts the entries that were
    /// written within the last `time`, and older ones only of processes for which `is_alive` is true.
    pub fn waiting_elsewhere_at(
        &self,
        process: ProcessId,
        now: Timestamp,
        time: Duration,
        is_alive: impl Fn(ProcessId) -> bool,
    ) -> u32 {
        let shown = self.clock.shown(now);
        let is_heard = |entry: &Entry| shown.since(entry.heard) <= time || is_alive(entry.process);
        self.waiting_at(|entry| entry.process != process && is_heard(entry))
    }

    fn waiting_at(&self, counts: impl Fn(&Entry) -> bool) -> u32 {
        let counted = self.entries.iter().filter(|entry| counts(entry));
        counted.fold(0, |sum, entry| sum.saturating_add(entry.waiting))
    }

    /// The first live entry whose waiter asks for no more than `capacity`.
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

    /// Removes the entries that were passed over when `claim` was granted.
    pub(crate) fn pass_over(&mut self, claim: &Claim, capacity: Capacity, at: LineTime) {
        let before = claim.before(at);
        self.entries.retain(|entry| {
            entry.process == claim.process || entry.place >= before || !entry.counts(capacity, at)
        });
    }

    /// Writes the entry of `process`. Without a `standing`, removes it.
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

    /// Updates the line for saving at `now`, with `available` permits free. If `restarts`, the time
    /// for which free permits are left to the first begins now.
    pub(crate) fn settle(&mut self, available: u32, restarts: bool, now: Timestamp) {
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
            _ => self.idle_since.filter(|_| !restarts).or(Some(at)),
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

    /// Whether the entry holds up others: it is live, and its waiter asks for no more than the capacity.
    fn counts(&self, capacity: Capacity, at: LineTime) -> bool {
        self.count <= capacity.value() && self.is_live(at)
    }
}

impl Claim {
    /// The place before which entries of other processes come first: that of the ask, less the [`WINDOW`] if it waits.
    fn before(&self, at: LineTime) -> LineTime {
        let place = at.place(self.seniority);
        match self.waits {
            true => place - WINDOW,
            false => place,
        }
    }
}
