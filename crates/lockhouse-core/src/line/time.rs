//! The time of a line.
//!
//! It follows the store's clock, but goes on evenly when that clock is set. It compensates for
//! steps back, and for steps ahead that are longer than a line in use stays unwritten.

use std::ops::{Add, Sub};
use std::time::Duration;

use crate::{Priority, Timestamp};

/// A clock that shows at least this much less than before was set back. Smaller steps are normal
/// clock synchronization.
const SET_BACK_US: i64 = 1_000_000;

/// A line is written at least every 20 s while it has waiters. A clock that shows at least this
/// much more was set ahead.
const SET_AHEAD_US: i64 = 30_000_000;

/// A time, or a place, in a line: microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LineTime(pub(super) i64);

impl LineTime {
    pub(super) fn of(now: Timestamp) -> Self {
        Self(now.as_microsecond())
    }

    /// The time since `earlier`. Zero if `earlier` is later.
    pub fn since(self, earlier: LineTime) -> Duration {
        let us = self.0.saturating_sub(earlier.0);
        Duration::from_micros(us.try_into().unwrap_or_default())
    }

    /// The place of a waiter that has `seniority` at this time.
    pub fn place(self, seniority: Seniority) -> Self {
        Self(self.0.saturating_sub(seniority.0))
    }
}

impl Add<Duration> for LineTime {
    type Output = Self;

    fn add(self, time: Duration) -> Self {
        Self(self.0.saturating_add(us(time)))
    }
}

impl Sub<Duration> for LineTime {
    type Output = Self;

    fn sub(self, time: Duration) -> Self {
        Self(self.0.saturating_sub(us(time)))
    }
}

/// The waiting time of a waiter plus the worth of its priority. The greater goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seniority(i64);

impl Seniority {
    /// The seniority of a waiter of `priority` that has `waited` this long.
    pub fn new(waited: Duration, priority: Priority) -> Self {
        Self(us(waited).saturating_add(priority.worth_us()))
    }

    /// The seniority of the same waiter after waiting for `longer`.
    pub fn after(self, longer: Duration) -> Self {
        Self(self.0.saturating_add(us(longer)))
    }
}

/// The line's time when it was last written, and its distance from the store's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Clock {
    pub(super) latest: LineTime,
    pub(super) skew_us: i64,
}

impl Clock {
    pub(super) fn starting(now: Timestamp) -> Self {
        Self {
            latest: LineTime::of(now),
            skew_us: 0,
        }
    }

    /// The line's time when the store's clock shows `now`, if that clock was not set since.
    pub(super) fn shown(self, now: Timestamp) -> LineTime {
        LineTime(now.as_microsecond().saturating_add(self.skew_us))
    }

    /// The clock when the store's clock shows `now`.
    pub(super) fn at(self, now: Timestamp) -> Self {
        let Self { latest, skew_us } = self;
        let shown = self.shown(now);
        let ahead = shown.0.saturating_sub(latest.0);
        if (-SET_BACK_US..=SET_AHEAD_US).contains(&ahead) {
            return Self {
                latest: latest.max(shown),
                skew_us,
            };
        }
        Self {
            latest,
            skew_us: skew_us.saturating_sub(ahead),
        }
    }
}

fn us(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}
