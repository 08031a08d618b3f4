//! The registration of this process in the line that the store keeps for one semaphore over all processes (P11).
//!
//! Every batch that touches a semaphore with waiters ends with a [`Stand`](lockhouse_core::Stand).
//! It saves this process's entry if the batch writes the row anyway, and returns the line. A batch
//! is sent for the entry alone
//! - when the first waiter has waited for 250 ms, or comes before all others by its priority;
//! - when the entry is gone, since it was passed over, or is stale;
//! - every 20 s, so that other processes see that this one lives.

use std::time::Duration;

use lockhouse_core::{
    Admission, Capacity, Claim, Entry, Line, LineTime, MAX_LINE, ProcessId, Saved, SemaphoreRow,
    Seniority, WINDOW,
};
use tokio::time::Instant;

/// A waiter that is served sooner is not registered, unless a batch writes the row anyway. Until its entry is saved,
/// later waiters of other processes may overtake it, so this time and a commit stay below the 500 ms of P11.
const REGISTERS_AFTER: Duration = Duration::from_millis(250);

/// How often an entry is refreshed. Other processes ignore it after 60 s.
pub(in crate::engine) const REFRESHED_EVERY: Duration = Duration::from_secs(20);

/// In a line of this many processes, each entry is refreshed half as often, and its place is
/// corrected at most every `CORRECTED_EVERY`.
const MANY: usize = 50;
const CORRECTED_EVERY: Duration = Duration::from_secs(10);

/// The least time between two batches that save only a changed number of waiters.
const COUNTED_EVERY: Duration = Duration::from_secs(5);

/// How often the process at the head says that it cannot use the free permits. After 700 ms without
/// that it would be passed over.
const EXCUSED_EVERY: Duration = Duration::from_millis(350);

/// The least time between two batches that are sent for an entry alone, and the same in a full line, which may leave the
/// entry out. If such a batch fails, since many processes want the row, the pause doubles each time, up to
/// [`MOST_DOUBLINGS`] times. It grows to as many times [`SENT_EVERY`] as there are entries, and at least to
/// [`MOST_TIMES_WHERE_FEW`] times.
const SENT_EVERY: Duration = Duration::from_millis(100);
const SENT_EVERY_WHERE_FULL: Duration = Duration::from_secs(2);
const MOST_DOUBLINGS: u32 = 5;
const MOST_TIMES_WHERE_FEW: usize = 4;

/// About how long a commit takes, including the time in the queue.
const A_COMMIT: Duration = Duration::from_millis(50);

/// The shortest time before an ask is repeated that the store refused since others come first. The
/// store's clock is read a little earlier than the engine's.
const ASKS_AGAIN_AFTER: Duration = Duration::from_millis(5);

/// How a reading of a semaphore relates to this process's own commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum Observed {
    /// It was read in a batch: after the commands decided before, and before all later ones.
    InOrder,
    /// It was read by a poll: commands that are in a lane may be in it or not.
    Unordered,
}

/// The first waiter of this process on a semaphore.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct Head {
    pub(in crate::engine) seniority: Seniority,
    pub(in crate::engine) waited: Duration,
    /// Whether it is parked: it waits to be called.
    pub(in crate::engine) is_parked: bool,
    /// How many waiters there are.
    pub(in crate::engine) waiting: u32,
}

/// This process's knowledge about the line of a semaphore.
#[derive(Debug)]
pub(in crate::engine) struct Registration {
    process: ProcessId,
    line: Line,
    capacity: Capacity,
    /// A time of the line, and when it was read.
    read: Option<(LineTime, Instant)>,
    /// When a batch was last sent for the entry alone.
    sent: Option<Instant>,
    /// How many such batches were sent since a batch last succeeded, and the pause after the last one. After the first
    /// one the pause does not count.
    tries: u32,
    pause: Duration,
    /// Whether the row may have an entry of this process. A row that was read without one may be
    /// from before the entry was saved.
    may_be_there: bool,
    /// Until when waiters of other processes come first.
    others_first: Option<Instant>,
    was_refused: bool,
    /// How many processes are ahead.
    rank: usize,
}

impl Registration {
    pub(in crate::engine) fn new(process: ProcessId) -> Self {
        Self {
            process,
            line: Line::default(),
            capacity: Capacity::CLOSED,
            read: None,
            sent: None,
            tries: 0,
            pause: SENT_EVERY,
            may_be_there: false,
            others_first: None,
            was_refused: false,
            rank: 0,
        }
    }

    /// How many processes are ahead of this one.
    pub(in crate::engine) fn rank(&self) -> usize {
        self.rank
    }

    /// Whether the row may have an entry of this process.
    pub(in crate::engine) fn may_be_there(&self) -> bool {
        self.may_be_there
    }

    /// Records that the row may have an entry of this process: a batch is about to save one, or the removal of an old
    /// one may not have been saved.
    pub(in crate::engine) fn go_along(&mut self) {
        self.may_be_there = true;
    }

    /// Whether waiters of other processes come first now, so that an ask would be refused.
    pub(in crate::engine) fn waits_for_others(&self, now: Instant) -> bool {
        self.others_first.is_some_and(|until| now < until)
    }

    /// Until when waiters of other processes come first, unless something changes before.
    pub(in crate::engine) fn others_first(&self) -> Option<Instant> {
        self.others_first
    }

    /// Records that the store refused the first waiter here since others come first.
    pub(in crate::engine) fn refuse(&mut self) {
        self.was_refused = true;
    }

    /// Records that another waiter may be the first.
    pub(in crate::engine) fn has_new_head(&mut self) {
        self.others_first = None;
    }

    /// Records a semaphore's row as it was read; `at` is the time of its line, if known.
    pub(in crate::engine) fn see(
        &mut self,
        semaphore: &SemaphoreRow,
        at: Option<LineTime>,
        when: Observed,
        head: Option<Head>,
        now: Instant,
    ) {
        self.line = semaphore.line.clone();
        if when == Observed::InOrder {
            self.may_be_there = self.own().is_some();
            self.tries = 0;
        }
        self.capacity = semaphore.capacity;
        if let Some(at) = at {
            self.read = Some((at, now));
        }
        let was_refused = std::mem::take(&mut self.was_refused);
        self.others_first = None;
        self.rank = 0;
        let Some(head) = head else {
            return;
        };
        let (claim, at) = (self.claim(head.seniority), self.time(now));
        // For a process without an entry this is approximate: the line was saved within the last 20
        // s.
        let about = at.unwrap_or(self.line.saved_at());
        let place = match self.own() {
            Some(own) => own.place,
            None => about.place(head.seniority),
        };
        self.rank = self.line.rank(self.process, place, self.capacity, about);
        let Some(at) = at else {
            return;
        };
        self.others_first = match self.line.admission(&claim, self.capacity, at) {
            Admission::At(then) => Some(now + then.since(at).max(ASKS_AGAIN_AFTER)),
            Admission::Now if was_refused => Some(now + ASKS_AGAIN_AFTER),
            Admission::Now => None,
        };
    }

    /// Whether to send a batch for the entry alone now, if entries are refreshed every
    /// `refreshed_every`.
    pub(in crate::engine) fn is_due(
        &self,
        head: &Head,
        refreshed_every: Duration,
        now: Instant,
    ) -> Option<Saved> {
        if self.sends_from().is_some_and(|from| now < from) {
            return None;
        }
        if self.excuse(head, now).is_some_and(|due| due <= now) {
            return Some(Saved::Excused);
        }
        let times = if self.line.entries().len() >= MANY {
            2
        } else {
            1
        };
        let is_stale = match self.own() {
            Some(own) => self.is_stale(own, head, times * refreshed_every, now),
            None => head.waited >= REGISTERS_AFTER || self.comes_before_all(head, now),
        };
        is_stale.then_some(Saved::Always)
    }

    /// Whether to remove the entry now, since no waiter of this process stands in the line.
    pub(in crate::engine) fn is_to_withdraw(&self, now: Instant) -> bool {
        self.withdraws(now).is_some_and(|from| from <= now)
    }

    /// When to remove the entry.
    pub(in crate::engine) fn withdraws(&self, now: Instant) -> Option<Instant> {
        let is_there = self.own().is_some();
        is_there.then(|| self.sends_from().unwrap_or(now).max(now))
    }

    /// When to call [`is_due`](Self::is_due) again.
    pub(in crate::engine) fn next(&self, head: &Head, now: Instant) -> Option<Instant> {
        let due = if self.own().is_none() {
            now + REGISTERS_AFTER.saturating_sub(head.waited)
        } else {
            self.excuse(head, now)?
        };
        Some(due.max(self.sends_from().unwrap_or(due)))
    }

    /// When to say that this process, if it is at the head, cannot use the free permits.
    fn excuse(&self, head: &Head, now: Instant) -> Option<Instant> {
        let idle_since = self.line.idle_since()?;
        if !head.is_parked || !self.is_at_the_head() {
            return None;
        }
        let idle = self.time(now)?.since(idle_since);
        Some(now + EXCUSED_EVERY.saturating_sub(idle))
    }

    /// When an entry may be sent again.
    fn sends_from(&self) -> Option<Instant> {
        let every = match self.line.entries().len() >= MAX_LINE {
            true => SENT_EVERY_WHERE_FULL,
            false if self.tries > 1 => self.pause,
            false => SENT_EVERY,
        };
        self.sent.map(|sent| sent + every)
    }

    /// Records that the entry is sent.
    pub(in crate::engine) fn send(&mut self, now: Instant) {
        let most = self.line.entries().len().max(MOST_TIMES_WHERE_FEW);
        let times = (1 << self.tries.min(MOST_DOUBLINGS)).min(most as u32);
        let longer = SENT_EVERY * times;
        self.sent = Some(now);
        self.tries = self.tries.saturating_add(1);
        self.pause = longer.mul_f64(0.5 + fastrand::f64());
    }

    fn own(&self) -> Option<&Entry> {
        self.line.entry(self.process)
    }

    fn is_at_the_head(&self) -> bool {
        let first = self.line.entries().first();
        first.is_some_and(|first| first.process == self.process)
    }

    /// Whether the entry must be corrected or refreshed. Its place may be off by less than the time
    /// of a commit. With no other entry in between, it may be off by up to two windows.
    fn is_stale(&self, own: &Entry, head: &Head, refreshed_every: Duration, now: Instant) -> bool {
        let Some(at) = self.time(now) else {
            return false;
        };
        let place = at.place(head.seniority);
        let (from, to) = (place.min(own.place), place.max(own.place));
        let off = to.since(from);
        let others = self.line.entries().iter();
        let mut others = others.filter(|other| other.process != self.process);
        let told = at.since(own.heard);
        let may_correct = self.line.entries().len() < MANY || told >= CORRECTED_EVERY;
        let is_off = off > 2 * WINDOW
            || off > A_COMMIT && others.any(|other| (from..=to).contains(&other.place));
        let is_counted = own.waiting == head.waiting || told < COUNTED_EVERY;
        is_off && may_correct || !is_counted || told >= refreshed_every
    }

    fn comes_before_all(&self, head: &Head, now: Instant) -> bool {
        let (Some(at), Some(first)) = (self.time(now), self.line.entries().first()) else {
            return false;
        };
        at.place(head.seniority) < first.place
    }

    fn claim(&self, seniority: Seniority) -> Claim {
        Claim {
            process: self.process,
            seniority,
            waits: true,
        }
    }

    /// The current time of the line.
    fn time(&self, now: Instant) -> Option<LineTime> {
        let (at, then) = self.read?;
        Some(at + now.saturating_duration_since(then))
    }
}
